"""Use cases of money: books of positions, profit and balances."""
