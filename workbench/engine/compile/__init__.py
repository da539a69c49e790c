"""Compile plans for devices that are attached or absent."""
