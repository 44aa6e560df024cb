"""The description of the REST interface: a table of operations, the OpenAPI document made of it, and its page."""
