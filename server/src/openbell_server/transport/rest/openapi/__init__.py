"""The OpenAPI description of the REST API: a table of operations, the document built from it, and an HTML page."""
