"""Brokers and execution parts to test against."""
