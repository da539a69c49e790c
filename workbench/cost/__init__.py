"""What a partitioned program costs a device: memory over the step, flops and traffic, time."""
