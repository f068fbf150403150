"""Products, and what is made of them, in widths that tensor cores and vectors want."""
