"""Stores of execution, reconciliation, broker sign-ins and slot leases."""
