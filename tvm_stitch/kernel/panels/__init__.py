"""Columns of a matrix as rows: a block has a panel of neighbours, which it reads once."""
