"""Deterministic simulation: the real application code on a seeded loop, between fakes that are nastier than life."""
