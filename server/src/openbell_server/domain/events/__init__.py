"""Account events, the outbox queues and webhooks."""
