"""The commands about rules, switches, symbols, back-tests and halts."""
