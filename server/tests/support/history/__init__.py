"""Recorded histories, their checker, and the founding contract's statements."""
