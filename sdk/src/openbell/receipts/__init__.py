"""Receipts, the chains over them, and offline verification."""
