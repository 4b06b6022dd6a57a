"""What is known before a row is read."""
