"""A plan and its figures as files for others: a page to mail, a trace, the board's picture."""
