"""Named statements, and tenants that have one of everything."""
