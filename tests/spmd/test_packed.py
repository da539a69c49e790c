"""What a buffer assignment says of memory, read off messages put together by hand."""

import pytest

from workbench.spmd import hlo_pb2
from workbench.spmd.buffer_assignment import read_program

ALLOC, FREE, SHARE = 0, 1, 2
KINDS = {"argument": "is_entry_computation_parameter", "result": "maybe_live_out", "constant": "is_constant", "thread": "is_thread_local"}


def program(*allocations, events=(), sizes=()):
    """Allocations as (bytes, words of what they are); the events are of the last one."""
    made = [
        hlo_pb2.BufferAllocation(
            index=number,
            size=size,
            color=1 if "on chip" in words else 0,
            is_tuple="tuples" in words,
            **{name: word in words for word, name in KINDS.items()},
        )
        for number, (size, *words) in enumerate(allocations)
    ]
    traced = [hlo_pb2.HeapSimulatorTrace.Event(kind=kind, buffer_id=buffer) for kind, buffer in events]
    traces = [hlo_pb2.HeapSimulatorTrace(events=traced, buffer_allocation_index=len(made) - 1)] if traced else []
    buffers = [hlo_pb2.LogicalBuffer(id=number, size=size) for number, size in enumerate(sizes)]
    assignment = hlo_pb2.BufferAssignment(logical_buffers=buffers, buffer_allocations=made, heap_simulator_traces=traces)
    module = hlo_pb2.Module(name="m", entry_computation_name="main", computations=[hlo_pb2.Computation(name="main", id=1)])
    return hlo_pb2.Program(hlo_module=module, buffer_assignment=assignment).SerializeToString()


def packed(*allocations, **rest):
    return read_program(program(*allocations, **rest))[1]


def test_the_module_comes_with_it():
    assert read_program(program((8, "argument")))[0].name == "m"


def test_arguments_and_results_are_told_apart_and_what_is_both_counts_as_both():
    found = packed((100, "argument"), (60, "argument", "result"), (7, "result"))
    assert (found.arguments, found.outputs, found.aliased) == (160, 67, 60)


def test_what_lies_on_the_chip_constants_and_a_threads_own_are_no_temporaries():
    found = packed((10, "on chip"), (20, "constant"), (30, "thread"))
    assert (found.live, found.heap) == (0, 0)


def test_temporaries_are_alive_as_the_heap_was_simulated_and_take_what_they_are_packed_in():
    events = [(ALLOC, 0), (ALLOC, 1), (FREE, 0), (ALLOC, 2), (FREE, 1), (FREE, 2)]
    found = packed((90,), events=events, sizes=(30, 20, 25))
    assert (found.live, found.heap) == (50, 90)


def test_a_buffer_that_shares_anothers_place_takes_nothing():
    events = [(ALLOC, 0), (SHARE, 1), (FREE, 1), (FREE, 0), (ALLOC, 2)]
    assert packed((90,), events=events, sizes=(30, 30, 10)).live == 30


@pytest.mark.parametrize(("words", "live"), [((), 90), (("tuples",), 0)])
def test_without_a_trace_all_of_a_heap_is_alive_unless_it_holds_tables_of_tuples(words, live):
    assert packed((90, *words)).live == live
