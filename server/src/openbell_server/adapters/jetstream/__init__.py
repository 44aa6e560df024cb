"""Hints between processes. Nothing here is needed for correctness, only for speed."""
