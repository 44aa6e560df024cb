"""Use cases of callers, organizations, accounts, API keys and broker credentials."""
