"""Looks a platform over before something goes wrong: every finding says what is so, and how to mend it."""
