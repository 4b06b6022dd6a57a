"""The codebook of a release in formats of others."""
