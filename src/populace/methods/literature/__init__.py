"""Methods kept for comparison with the literature."""
