"""Secrets, sealed and opened by envelope encryption."""
