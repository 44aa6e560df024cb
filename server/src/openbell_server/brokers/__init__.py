"""Broker adapters: one folder per broker, none imports another, and the registry lists them all."""
