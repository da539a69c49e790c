"""Pausing garbage collection: what is made meanwhile is not searched at once, and cyclic garbage of it does not pile up."""

import gc
import sys
import weakref

import pytest

from workbench.core import pause_gc
from workbench.core.pause_gc import gc_paused


class Linked:
    """An object that refers to itself, and to tuples of a fifth as many blocks as the process has."""

    def __init__(self) -> None:
        self.own = self
        self.tuples = [(number,) for number in range(sys.getallocatedblocks() // 10)]


@pytest.fixture
def heap(monkeypatch):
    """As in a new process; other tests have measured the heap before."""
    monkeypatch.setattr(pause_gc, "_HEAP", pause_gc._Heap())
    gc.collect()
    with gc_paused():
        pass


def test_cyclic_garbage_is_found_once_the_heap_has_grown_by_a_quarter(heap):
    before, made = sys.getallocatedblocks(), []
    for _ in range(12):
        with gc_paused():
            made.append(weakref.ref(Linked()))
    assert sum(each() is not None for each in made) <= 3
    assert sys.getallocatedblocks() < 1.4 * before


def test_what_replaces_what_was_there_makes_no_search(heap):
    searches = gc.get_stats()[2]["collections"]
    kept = None
    for _ in range(12):
        with gc_paused():
            kept = [(number,) for number in range(sys.getallocatedblocks() // 10)]
    assert kept
    assert gc.get_stats()[2]["collections"] - searches <= 1


def test_collection_stays_off_where_it_was_off(heap):
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
