"""Codebooks and questionnaires of others: each becomes a list of variables, and those the text of a schema."""
