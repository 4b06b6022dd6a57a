"""The report of a hierarchical release: its numbers, its charts and its page."""
