"""`copula`: a Gaussian copula from coarse tables of pairs."""
