"""Pause garbage collection during work whose results are all kept."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_GROWTH = 1.25  # as in CPython: a full collection once the survivors have grown by a quarter


class _Heap:
    """Number of allocated memory blocks at the last full collection."""

    def __init__(self) -> None:
        self._blocks = 0

    def collect_if_grown(self) -> None:
        """Run a full collection if the heap has grown by a quarter since the last one.

        Objects moved to the oldest generation by `gc_paused` do not count as survivors, so CPython would never collect
        cycles among them, such as pipeline costs that refer to their plan.
        """
        if sys.getallocatedblocks() <= _GROWTH * self._blocks:
            return
        if self._blocks:
            gc.collect()
        self._blocks = sys.getallocatedblocks()


_HEAP = _Heap()


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection while hundreds of thousands of small, permanent tuples are created.

    Collection would take a third of the time and block all other threads. Afterwards the objects move to the oldest
    generation unsearched; otherwise the next allocation would search them at once.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_freeze_count() == 0:  # do not unfreeze objects that other code has frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()
            _HEAP.collect_if_grown()
