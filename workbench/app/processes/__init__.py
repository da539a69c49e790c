"""Every visitor's board in a process of its own: load or a crash in one does not affect the others."""
