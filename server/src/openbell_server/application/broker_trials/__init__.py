"""Measures what a broker's sandbox does with commands."""
