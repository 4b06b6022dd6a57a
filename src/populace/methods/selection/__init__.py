"""What methods share: candidates, budget allocation, limits of model size, rare codes."""
