"""From noisy measurements to a model of the whole table."""
