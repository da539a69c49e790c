"""The search panel: its form, its progress, the plans found, and their explanations."""
