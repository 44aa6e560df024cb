"""Local development: run the whole platform on this machine, the demo, and generated pages."""
