"""Where things start: the only place that reads settings and imports everything."""
