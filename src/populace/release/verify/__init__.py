"""Verification of release folders."""
