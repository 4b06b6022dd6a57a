"""From private files and frames to codes."""
