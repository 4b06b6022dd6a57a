"""Domains learnt with budget: values, bins, and the density inside bins."""
