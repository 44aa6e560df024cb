"""Stores for operators' commands, diagnostics, and the check of a backup."""
