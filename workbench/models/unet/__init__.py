"""A 3-D U-Net for volumes."""
