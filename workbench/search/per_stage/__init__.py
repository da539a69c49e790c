"""Stage costs, and the choice of a layout for each stage of a pipeline."""
