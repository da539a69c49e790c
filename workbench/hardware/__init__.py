"""Target hardware: kinds of devices, their number, the links between them, and axis assignments."""
