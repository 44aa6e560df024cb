"""How callers reach us. Calls use cases, never adapters."""
