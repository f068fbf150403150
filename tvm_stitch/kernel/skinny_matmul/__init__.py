"""Matrix products of few rows, as where a model decodes: weights are read once, at full speed."""
