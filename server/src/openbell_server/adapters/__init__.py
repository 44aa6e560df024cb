"""Our services. Each implements ports; none knows another."""
