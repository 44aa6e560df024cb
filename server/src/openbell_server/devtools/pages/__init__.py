"""Generators of documentation pages from code."""
