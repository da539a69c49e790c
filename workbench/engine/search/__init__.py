"""Answer the questions of a search: worker processes of this machine, or actors of a Ray cluster."""
