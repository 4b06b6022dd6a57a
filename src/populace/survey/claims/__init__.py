"""Claims about a table: what a finding says, how it is decided on rows, and how it is asked of private ones."""
