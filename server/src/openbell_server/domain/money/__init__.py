"""Balances, cost and profit."""
