"""Noise whose scale follows a smooth bound on local sensitivity."""
