"""PyTorch's compiler calls ours: graphs in parts, of which some are compiled."""
