"""The board where a person sees it: in a notebook cell, on a served page; and who runs and compiles for it."""
