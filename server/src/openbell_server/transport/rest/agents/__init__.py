"""Routes of agents' keys."""
