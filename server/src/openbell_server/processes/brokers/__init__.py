"""How processes find brokers, and try one."""
