"""Runs simulated on invented or public populations."""
