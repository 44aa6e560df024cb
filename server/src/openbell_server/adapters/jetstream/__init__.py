"""Notifications between processes over NATS: they save time, and correctness never depends on them."""
