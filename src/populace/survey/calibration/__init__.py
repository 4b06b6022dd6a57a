"""Weights that meet public totals."""
