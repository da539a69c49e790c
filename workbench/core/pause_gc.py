"""Pausing garbage collection during work whose results are all kept."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_GROWTH = 1.25  # as Python's own rule: a full collection once a quarter more has survived the younger ones


class _Heap:
    """The memory blocks of this process's Python objects when the oldest generation was last searched."""

    def __init__(self) -> None:
        self._blocks = 0

    def collect_if_grown(self) -> None:
        """Search the oldest generation if there are a quarter more objects than after the last search.

        Objects that were moved there count as survivors of no younger generation, so that Python's own rule would never find those among
        them that have become cyclic garbage: a pipeline's costs, say, which refer to their plan. Edits of one plan replace a report by
        another: they do not grow the heap, and nothing is searched.
        """
        if sys.getallocatedblocks() <= _GROWTH * self._blocks:
            return
        if self._blocks:
            gc.collect()
        self._blocks = sys.getallocatedblocks()


_HEAP = _Heap()


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
            _HEAP.collect_if_grown()
