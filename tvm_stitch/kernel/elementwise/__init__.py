"""Elements that need only their own inputs, perhaps read transposed through tiles."""
