"""Builders of valid test objects, and independent oracles for them."""
