"""Seals and opens secrets by envelope encryption."""
