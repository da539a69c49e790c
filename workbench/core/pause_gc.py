"""Pausing garbage collection during work whose results are all kept."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Hundreds of thousands of small tuples are made here, and all are kept: collecting garbage among them takes a third of the time, and
    blocks all other threads. In the end they move to the oldest generation without being searched, or the next allocation would search them
    at once."""
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
