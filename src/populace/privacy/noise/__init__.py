"""Exact noise from the operating system's randomness."""
