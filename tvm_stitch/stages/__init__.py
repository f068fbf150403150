"""What a PrimFunc computes, as Stages: read from its TIR, classified, with expressions of them."""
