"""Stores of callers, organizations, accounts, API keys, credentials and secrets."""
