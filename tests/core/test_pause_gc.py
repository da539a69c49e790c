"""Pausing garbage collection: what is made meanwhile is not searched at once, and cyclic garbage of it does not pile up.

What depends on the size of the heap is tried in a new process that has this module alone: other tests have measured the heap of this one,
and to search it takes seconds.
"""

import gc
import subprocess
import sys

import pytest

from workbench.core import pause_gc
from workbench.core.pause_gc import gc_paused

NEW_PROCESS = f"""
import gc, runpy, sys, weakref

gc_paused = runpy.run_path({pause_gc.__file__!r})["gc_paused"]
held = [(number,) for number in range(200_000)]  # a heap on which the objects of a test are a share, as in a session
gc.collect()
with gc_paused():
    pass
"""
CYCLIC_GARBAGE = """
class Linked:
    '''An object that refers to itself, and to tuples of a fifth as many blocks as the process has.'''
    def __init__(self):
        self.own = self
        self.tuples = [(number,) for number in range(sys.getallocatedblocks() // 10)]

before, made = sys.getallocatedblocks(), []
for _ in range(12):
    with gc_paused():
        made.append(weakref.ref(Linked()))
print(sum(each() is not None for each in made), sys.getallocatedblocks() / before)
"""
REPLACED = """
searches, kept = gc.get_stats()[2]["collections"], None
for _ in range(12):
    with gc_paused():
        kept = [(number,) for number in range(sys.getallocatedblocks() // 10)]
print(gc.get_stats()[2]["collections"] - searches)
"""
MOVED = """
with gc_paused():
    was_on = gc.isenabled()
    made = [[] for _ in range(1000)]
print(int(was_on), int(any(each is made for each in gc.get_objects(generation=2))))
"""


def in_new_process(code: str) -> list[float]:
    """The numbers that it prints."""
    done = subprocess.run([sys.executable, "-c", NEW_PROCESS + code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


def test_cyclic_garbage_is_found_once_the_heap_has_grown_by_a_quarter():
    alive, growth = in_new_process(CYCLIC_GARBAGE)
    assert alive <= 3
    assert growth < 1.4


def test_what_is_made_is_moved_to_the_oldest_generation_without_a_search():
    was_on, is_old = in_new_process(MOVED)
    assert (was_on, is_old) == (0, 1)


def test_what_replaces_what_was_there_makes_no_search():
    (searches,) = in_new_process(REPLACED)
    assert searches <= 1


@pytest.fixture
def new_heap(monkeypatch):
    monkeypatch.setattr(pause_gc, "_HEAP", pause_gc._Heap())


def test_collection_stays_off_where_it_was_off(new_heap):
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
