"""Logits, the loss of them and its gradients by chunks of rows: all of them never exist."""
