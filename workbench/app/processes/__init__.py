"""Every visitor's board in a process of its own: what one of them does, or breaks, is felt by no other."""
