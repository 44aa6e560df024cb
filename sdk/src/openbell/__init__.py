"""Client library and command line for Openbell."""
