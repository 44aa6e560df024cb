"""One folder per broker. None knows another; the registry has one line for each."""
