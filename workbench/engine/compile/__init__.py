"""Compile plans for attached or absent devices."""
