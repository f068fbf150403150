"""Searching the Schedules of a model's kernels, and applying what was found.

The way of the data: `tune` takes a model's fused functions as Workloads (workload, products), a
Space of legal Schedules or Tiles each (spaces), proposes some (search, with a model of what is
fast), has them measured (measuring) and writes Records (records, store); `apply` finds them again
at build time.
"""
