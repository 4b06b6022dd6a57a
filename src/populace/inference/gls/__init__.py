"""Generalised least squares over all measurements, with exact variances and intervals."""
