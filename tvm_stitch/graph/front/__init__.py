"""Reads Relax: decomposition before LegalizeOps, the graph, groups of it."""
