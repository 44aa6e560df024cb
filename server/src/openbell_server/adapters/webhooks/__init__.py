"""Requests to where customers want their events sent."""
