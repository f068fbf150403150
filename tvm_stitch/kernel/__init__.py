"""One fused function in, one kernel out. Knows nothing of graphs and plans."""
