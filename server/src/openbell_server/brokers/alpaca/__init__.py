"""Alpaca: REST for commands and look-ups, a WebSocket for each account's reports."""
