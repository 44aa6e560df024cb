"""Use cases of the account logs: write, read and follow events, relay the outbox."""
