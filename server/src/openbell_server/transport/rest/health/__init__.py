"""Routes of process health and queue health."""
