"""What indices send to rows of a table, as TIR of these rows."""
