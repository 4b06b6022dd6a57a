"""What a run will give, before anything is spent."""
