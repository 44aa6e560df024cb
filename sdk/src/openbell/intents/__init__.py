"""Orders that a caller can submit, and orders, executions and positions as the API lists them."""
