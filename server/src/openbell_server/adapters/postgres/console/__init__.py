"""Stores the sessions of the console."""
