"""Pure business rules: standard library only, without I/O, clock or randomness."""
