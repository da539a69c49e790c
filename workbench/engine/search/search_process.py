"""Worker process of a search: `python -m workbench.engine.search.search_process FD` answers questions on connection FD
until it closes.

The first message is the space (`pack_space`), each further one a pickled `Question`; an answer is a pickled `Answer`.
"""

import gc
import os
import pickle
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from workbench.core.child_process import end_with_parent, raise_niceness

_ALLOCATIONS = 50_000
"""Allocations between collections. With Python's 700, an eighth of the time went into a network's million live objects."""
_NICENESS = 5  # yields to the page and the browser on the same machine


def main(descriptor: int) -> None:
    end_with_parent(descriptor)
    raise_niceness(_NICENESS)
    with Connection(descriptor) as connection:
        from workbench.engine.search.worker_pool import unpack_evaluator
        from workbench.search.worker_questions import answer

        connection.send_bytes(pickle.dumps(("ready", os.getpid())))
        with suppress(EOFError, OSError):
            evaluator = unpack_evaluator(connection.recv_bytes())
            connection.send_bytes(pickle.dumps(("space", evaluator.space.size)))
            gc.freeze()  # JAX and the space live until the end
            gc.set_threshold(_ALLOCATIONS)
            while True:
                question: Any = pickle.loads(connection.recv_bytes())  # noqa: S301 - our own parent wrote it
                connection.send_bytes(pickle.dumps(("answer", answer(evaluator, question))))


if __name__ == "__main__":
    main(int(sys.argv[1]))
