"""Use cases of desk commands: accept and read them, and work them off."""
