"""Entry points of the processes: only these modules read settings and import all layers."""
