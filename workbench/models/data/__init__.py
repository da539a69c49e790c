"""Data to train the zoo on, drawn or carried by Python itself."""
