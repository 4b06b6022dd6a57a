"""The noisy measurements of a run: what crossed the barrier."""
