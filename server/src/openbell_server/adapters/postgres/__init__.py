"""The system of record. SQL lives in .sql files beside the Python that runs it."""
