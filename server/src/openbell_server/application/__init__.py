"""Use cases, one verb per file. Imports the domain only; what it needs from outside comes through ports."""
