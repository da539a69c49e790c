"""An exercise on the board: its questions, and what the plan on the board meets of one."""
