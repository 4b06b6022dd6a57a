"""Audits of the mechanism: runs replayed on neighbouring tables."""
