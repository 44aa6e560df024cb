"""HTTP client for webhook targets."""
