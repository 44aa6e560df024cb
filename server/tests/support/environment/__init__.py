"""Processes, proxies, databases and documents around a test."""
