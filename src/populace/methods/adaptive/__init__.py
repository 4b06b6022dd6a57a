"""`adaptive`, the default: the pairs and triples that are worth their noise."""
