"""Columns of a matrix as rows of their own: a block has a panel of neighbours, and reads it once."""
