"""Stores of rules, receipts, halts, markets and back-tests."""
