"""The tabs under the board, as JSON blocks."""
