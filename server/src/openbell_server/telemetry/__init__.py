"""What a process tells its operator: logs, metrics, traces."""
