"""Two linked tables of one dataset, seen as one wide row for each unit."""
