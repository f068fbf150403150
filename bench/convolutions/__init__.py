"""Convolutions by cuDNN, called as compiled modules call it, beside PyTorch: `__main__`."""
