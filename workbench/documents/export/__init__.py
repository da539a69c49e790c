"""Export a plan as code and in other libraries' formats."""
