"""A plan as code and as other libraries write it."""
