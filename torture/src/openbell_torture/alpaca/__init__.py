"""Alpaca's trading API, simulated on any engine."""
