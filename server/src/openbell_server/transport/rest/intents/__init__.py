"""Routes of intents, orders, receipts and dry runs."""
