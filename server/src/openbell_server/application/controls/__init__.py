"""Use cases of risk limits: set rules, check commands, halt, cancel, back-test."""
