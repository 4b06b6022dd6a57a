"""Kinds of columns: which values may occur."""
