"""Identity providers. They say who a caller is; what the caller may do is ours."""
