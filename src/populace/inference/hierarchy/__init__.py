"""Best linear unbiased estimates of every unit of a hierarchy, with exact variances."""
