"""The facts of a program that no layout changes: its values, their lifetimes, its loops and the work of each operation."""
