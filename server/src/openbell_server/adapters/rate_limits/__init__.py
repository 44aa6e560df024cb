"""Rate limit counters: in this process, or in Redis for all processes."""
