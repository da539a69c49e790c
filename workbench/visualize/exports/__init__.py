"""Exports of a plan and its figures as files: an HTML report, a trace, the board's picture."""
