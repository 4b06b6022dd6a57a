"""One kind of score per file, computed from codes and numbers of rows alone."""
