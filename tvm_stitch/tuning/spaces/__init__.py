"""What a kernel can be searched among: the values that its axes take, and those worth a look."""
