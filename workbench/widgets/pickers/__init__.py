"""Choices in the head of the board: the hardware, the axes on its links, and how the program is traced."""
