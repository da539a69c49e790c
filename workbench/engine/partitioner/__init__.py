"""XLA's partitioner in a separate warm process: a failed check inside XLA ends that process, and becomes an error
message here.
"""
