"""Routes of rules, symbol controls, halts, calendars, prices and back-tests."""
