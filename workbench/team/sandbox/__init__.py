"""Where programs of a team run: walled off by bubblewrap where the kernel lets it, within limits everywhere, ended with a sentence."""
