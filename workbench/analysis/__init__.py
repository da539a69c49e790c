"""From a plan to its report, and what follows from reports: diagnostics, suggestions, differences, comparisons."""
