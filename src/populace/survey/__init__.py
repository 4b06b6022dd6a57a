"""Survey estimates: weights, missing answers and samples, as arithmetic that the barrier and its questions share."""
