"""Checks a platform before something fails: every finding states the problem and how to fix it."""
