"""AmoebaNet-D, the convolutional network of GPipe."""
