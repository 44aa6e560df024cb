"""What the paper broker can do, and how to reach it."""
