"""Runs a trading bot against a simulated broker whose answers get lost, and reports what that did to its orders."""
