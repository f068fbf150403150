"""How a traced graph falls into parts: which operators are in one, in which order they run."""
