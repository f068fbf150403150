"""Attention in one pass, scores in registers: of few queries (decoding), and of short ones."""
