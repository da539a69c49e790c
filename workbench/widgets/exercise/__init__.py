"""The exercise panel: questions, and the goals that the plan on the board meets."""
