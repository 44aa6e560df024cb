"""Budgets of agents, and what a key can do at worst."""
