"""Tradier: REST for commands and look-ups, and its list of the day's orders, asked again and again, as a feed."""
