"""Calibration of the cost model: kernels of many kinds and mappings, timed on a GPU.

groups    200 generated graphs            variants  the kernels of a graph, by several mappings
worker    compiles and times              measure   hands graphs to workers, collects samples
samples   what was measured, as JSON      fit       constants of the model; check: how good it is
"""
