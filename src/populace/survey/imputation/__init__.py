"""Estimates with missing values."""
