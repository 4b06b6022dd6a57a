"""One suite over every place where rows can lie: memory, DuckDB, Polars, PostgreSQL, Spark."""
