"""Values that stay on the chip, in another order of axes than the model counts them in."""
