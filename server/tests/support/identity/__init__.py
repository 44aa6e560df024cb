"""Keys, tokens and identity providers for tests."""
