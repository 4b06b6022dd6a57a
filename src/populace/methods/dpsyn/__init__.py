"""`dpsyn`: pairs from a public table, private counts by group."""
