"""Proofs: each part measures what the platform promises, at full size or at the gate's."""
