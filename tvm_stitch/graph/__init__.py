"""Relax in, Relax out: decomposing, reading and grouping operators. Knows no thread."""
