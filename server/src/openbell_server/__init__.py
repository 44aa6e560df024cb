"""Openbell: a broker-agnostic trading-intents platform."""
