"""Symbolic twins of the sub-graphs without a GPU: how many kernels they are, and if they are right.

`python -m bench.twins count FILE` plans every sub-graph with its sizes known and symbolic,
and writes a row for each; nothing is compiled. `python -m bench.twins run FILE` compiles the
twins of small workloads and runs them on the CPU executor at several sizes. `python -m bench.twins
table FILE` makes a table of what was counted.
"""
