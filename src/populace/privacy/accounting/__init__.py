"""What a mechanism costs, and what a budget allows."""
