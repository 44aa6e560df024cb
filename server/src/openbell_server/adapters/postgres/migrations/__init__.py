"""The schema, as revisions that run the .sql file of the same name."""
