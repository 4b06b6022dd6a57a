"""Schemas from codebooks: files that describe a table, turned into the text of a schema."""
