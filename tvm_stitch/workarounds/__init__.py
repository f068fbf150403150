"""What Python and TVM do by the way that a build need not wait for, or would fall over."""
