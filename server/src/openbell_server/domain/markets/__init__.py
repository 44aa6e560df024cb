"""Instruments, market calendars and trading windows."""
