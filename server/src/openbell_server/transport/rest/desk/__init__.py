"""Routes of desk commands."""
