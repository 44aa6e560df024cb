"""Protocols that adapters implement for the webhook use cases."""
