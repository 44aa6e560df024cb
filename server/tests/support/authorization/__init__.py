"""The authorization table written by hand, and calls that check it."""
