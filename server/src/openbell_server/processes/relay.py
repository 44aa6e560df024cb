"""The outbox worker: tells executors, through JetStream, that an account has work."""
