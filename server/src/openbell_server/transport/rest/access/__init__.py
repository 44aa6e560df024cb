"""Routes of accounts, API keys, credentials, brokers, organizations and users."""
