"""Protocols that adapters implement for the access use cases."""
