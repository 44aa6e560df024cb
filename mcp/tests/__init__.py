"""A package, so that pytest does not take the folder above, `mcp`, for the SDK of the same name."""
