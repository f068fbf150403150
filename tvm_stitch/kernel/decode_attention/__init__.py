"""Attention of few queries, as where a model decodes: keys split among warps and blocks."""
