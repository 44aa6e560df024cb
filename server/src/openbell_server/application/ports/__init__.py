"""Ports that more than one feature uses; a port of one feature lies beside it."""
