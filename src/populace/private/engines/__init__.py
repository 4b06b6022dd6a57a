"""Engines: they count exactly and never add noise."""
