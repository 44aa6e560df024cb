"""What every broker's adapter must pass."""
