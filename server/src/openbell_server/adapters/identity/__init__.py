"""Identity providers: they identify a caller; permissions are our own."""
