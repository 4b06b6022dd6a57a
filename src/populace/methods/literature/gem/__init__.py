"""`gem`: a generative network fitted to noisy marginals."""
