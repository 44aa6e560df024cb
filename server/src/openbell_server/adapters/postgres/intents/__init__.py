"""Stores of intents, orders and their statistics, and the accept step."""
