"""Estimates of a hierarchy of units, and integer tables from them."""
