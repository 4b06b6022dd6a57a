"""Exact survey statistics of private rows, for the barrier alone."""
