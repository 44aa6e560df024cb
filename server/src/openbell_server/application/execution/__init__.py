"""Use cases of execution: send actions to brokers, apply reports, reconcile."""
