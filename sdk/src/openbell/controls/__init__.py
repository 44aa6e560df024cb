"""Rules, switches, halts, back-tests, reference prices and market calendars."""
