"""Intents, actions, orders, executions and broker reports."""
