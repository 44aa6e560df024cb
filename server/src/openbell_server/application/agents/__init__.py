"""Use cases of agents: create their keys, and read what a key can do at worst."""
