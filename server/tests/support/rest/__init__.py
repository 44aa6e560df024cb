"""The REST application and event streams in tests, and checks of their answers."""
