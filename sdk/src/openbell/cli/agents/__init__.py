"""Commands for AI agents."""
