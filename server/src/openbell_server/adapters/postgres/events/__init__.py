"""Stores of account event logs, outbox queues and webhooks."""
