"""Routes of account logs and webhooks."""
