"""The board's hosts: in a notebook cell, on a served page; and the runners that run and compile for it."""
