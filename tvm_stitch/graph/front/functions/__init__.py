"""Functions of one number, by what the hardware has for them."""
