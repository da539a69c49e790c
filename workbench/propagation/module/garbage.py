"""Work of which all that is made is kept, done without looking for garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Hundreds of thousands of small tuples are made here, and all are kept: looking for garbage among them takes a third of the time, and
    holds all other threads meanwhile. In the end they are put with what is old, unlooked at, or the next allocation would look at once."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_freeze_count() == 0:  # else somebody keeps things frozen, who would lose that
                gc.freeze()
                gc.unfreeze()
            gc.enable()
