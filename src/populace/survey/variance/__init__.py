"""Sampling variances and confidence intervals."""
