"""One module for each group of operations of the OpenAPI document."""
