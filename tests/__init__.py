"""All tests, with one thread for matrices, as commands have: they are small, and a second thread would wait, busily."""

import os

# NumPy reads it when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
