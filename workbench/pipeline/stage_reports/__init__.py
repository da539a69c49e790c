"""What the devices of one stage do in a step of a pipelined plan, as a `Report` like any other."""
