"""The PostgreSQL stores. SQL is in .sql files beside the Python that runs it."""
