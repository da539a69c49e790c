"""A process for each visitor's board, so that load or a crash in one does not affect the others."""
