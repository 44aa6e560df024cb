"""What use cases need from outside, as protocols."""
