"""Trials of brokers: the proxy that loses answers, the orders that were sent, and the signed rows."""
