"""Rules. Standard library only: no input, no output, no clock, no chance."""
