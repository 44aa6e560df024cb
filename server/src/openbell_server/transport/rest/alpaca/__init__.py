"""Alpaca's trading API over the platform's own use cases, so that a bot written for Alpaca changes only its address."""
