"""Desk commands in PostgreSQL."""
