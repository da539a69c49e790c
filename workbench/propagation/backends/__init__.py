"""Where XLA's back ends send something else than Shardy plans, until XLA's partitioner has answered."""
