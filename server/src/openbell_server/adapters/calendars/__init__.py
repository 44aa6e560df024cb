"""Sessions of markets, in a table that tools/market_calendars.py makes."""
