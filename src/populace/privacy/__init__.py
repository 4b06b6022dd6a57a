"""The mathematics of the guarantee: prices, noise, ledger."""
