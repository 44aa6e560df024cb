"""Callers, permissions, accounts, API keys and broker credentials."""
