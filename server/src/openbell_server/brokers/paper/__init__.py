"""The built-in broker: a process with a ledger of its own, and the session that talks to it."""
