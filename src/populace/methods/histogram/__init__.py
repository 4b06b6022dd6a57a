"""`histogram` and `histogram-exponential`: one table of counts over all columns."""
