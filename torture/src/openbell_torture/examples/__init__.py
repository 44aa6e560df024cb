"""Bots as people write them, and the same ones fixed: each buys ten times and protects what it bought with a stop."""
