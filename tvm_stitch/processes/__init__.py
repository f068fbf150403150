"""Work that is done in processes beside this one, and how many there may be."""
