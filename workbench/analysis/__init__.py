"""Analyze a plan into its report, and what follows from reports: diagnostics, suggestions, differences, comparisons."""
