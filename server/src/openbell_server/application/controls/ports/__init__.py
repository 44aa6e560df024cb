"""Protocols that adapters implement for the controls use cases."""
