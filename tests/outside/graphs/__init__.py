"""Random graphs: made by chance, judged by NumPy, run in the executor or on a GPU."""
