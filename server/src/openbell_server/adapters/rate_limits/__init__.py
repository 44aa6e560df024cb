"""Counts of calls: in this process, or in Redis for all of them."""
