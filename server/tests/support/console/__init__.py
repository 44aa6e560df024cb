"""A console for tests: its process, a scripted identity provider, and browsers."""
