"""Routes of positions, profit and balances."""
