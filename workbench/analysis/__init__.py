"""Analyze a plan into a report, and derive diagnostics, suggestions, differences and comparisons."""
