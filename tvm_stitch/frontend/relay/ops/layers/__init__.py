"""Operators of neural networks: products, convolutions, pooling, and their quantised forms."""
