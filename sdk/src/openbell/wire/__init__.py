"""Code generated from proto/ by `make generate`; never edited."""
