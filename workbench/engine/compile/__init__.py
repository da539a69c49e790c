"""Plans compiled for devices that are attached or absent."""
