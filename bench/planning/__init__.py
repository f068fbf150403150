"""How long planning takes, by the family and the size of the graph: no GPU needed.

`python -m bench.planning --output FOLDER` plans graphs of every family (families.py) at every size,
each in a process of its own, and writes planning.json, planning.md and a plot. `--models` adds
models and sub-graphs of the benchmarks, `--compare` an earlier planning.json, beside which
predicted costs may not grow.
"""
