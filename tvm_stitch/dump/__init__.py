"""Every stage of a compilation as a file, for whoever wants to see what became of a module."""
