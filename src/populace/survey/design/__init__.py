"""Survey designs: weights, strata, clusters, sampling."""
