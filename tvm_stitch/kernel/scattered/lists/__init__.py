"""Which updates go to a block's rows: listed row by row, each time in the same order."""
