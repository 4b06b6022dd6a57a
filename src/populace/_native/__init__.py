"""The loops in C that grow with rows or cells, and their NumPy twins."""
