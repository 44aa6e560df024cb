"""What three people do in their first hour, step by step, each at the first try."""
