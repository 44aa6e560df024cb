"""Stores of books, profit and balances."""
