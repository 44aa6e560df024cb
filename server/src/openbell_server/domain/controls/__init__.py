"""Risk limits: rules, their evaluation, receipts, halts and back-tests."""
