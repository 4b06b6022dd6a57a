"""`stability`: frequent rows, released one by one by partition selection."""
