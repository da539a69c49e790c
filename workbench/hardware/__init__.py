"""What a plan runs on: kinds of devices, how many, the links between them, and which mesh axis runs over which links."""
