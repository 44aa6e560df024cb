"""Commands that concern many orders at once."""
