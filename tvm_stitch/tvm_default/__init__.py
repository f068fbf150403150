"""What TVM does by default: with what is not stitched, and where it would launch less."""
