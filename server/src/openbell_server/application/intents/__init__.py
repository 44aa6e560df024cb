"""Use cases of intents: submit commands, read intents, orders and receipts."""
