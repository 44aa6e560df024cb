"""Accounts, API keys, webhooks and the calls of operators."""
