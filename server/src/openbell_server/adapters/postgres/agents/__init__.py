"""Stores of agents' keys."""
