"""Tables of databases and lazy frames: rows come in batches, and the database is asked for nothing else."""
