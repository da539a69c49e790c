"""What a buffer assignment says of memory, read off messages put together by hand."""

import pytest

from workbench.spmd import hlo_pb2
from workbench.spmd.buffer_assignment import read_program

ALLOC, FREE, SHARE = 0, 1, 2
KINDS = {"argument": "is_entry_computation_parameter", "result": "maybe_live_out", "constant": "is_constant", "thread": "is_thread_local"}


def _event(kind, buffer, owner=0):
    return hlo_pb2.HeapSimulatorTrace.Event(kind=kind, buffer_id=buffer, share_with_canonical_id=owner)


def program(*allocations, traces=(), sizes=(), tables=(), placed=None):
    """Allocations as (bytes, words of what they are). `traces`: events of a heap each; `sizes` of the buffers, those of `tables` hold the
    addresses of a tuple's elements; `placed`: by allocation, (buffer, offset) of what it has, all in the last one if not said."""
    whole = {len(allocations) - 1: [(number, 0) for number in range(len(sizes))]} if placed is None else placed
    made = [
        hlo_pb2.BufferAllocation(
            size=size,
            color=1 if "on chip" in words else 0,
            assigned=[
                hlo_pb2.BufferAllocation.Assigned(logical_buffer_id=buffer, offset=offset, size=sizes[buffer])
                for buffer, offset in whole.get(number, ())
            ],
            **{name: word in words for word, name in KINDS.items()},
        )
        for number, (size, *words) in enumerate(allocations)
    ]
    simulated = [[_event(*each) for each in events] for events in traces]
    array = hlo_pb2.Shape(element_type=11, dimensions=[2])
    instructions = [
        hlo_pb2.Instruction(id=1, shape=array),
        hlo_pb2.Instruction(id=2, shape=hlo_pb2.Shape(element_type=13, tuple_shapes=[array])),
    ]
    where = hlo_pb2.LogicalBuffer.Location
    buffers = [
        hlo_pb2.LogicalBuffer(id=number, size=size, defined_at=where(instruction_id=2 if number in tables else 1))
        for number, size in enumerate(sizes)
    ]
    assignment = hlo_pb2.BufferAssignment(
        logical_buffers=buffers,
        buffer_allocations=made,
        heap_simulator_traces=[hlo_pb2.HeapSimulatorTrace(events=each) for each in simulated],
    )
    main = hlo_pb2.Computation(name="main", id=1, instructions=instructions)
    module = hlo_pb2.Module(name="m", entry_computation_name="main", computations=[main])
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
    found = packed((90,), traces=[events], sizes=(30, 20, 25))
    assert (found.live, found.heap) == (50, 90)


def test_a_buffer_that_shares_anothers_place_takes_nothing():
    events = [(ALLOC, 0), (SHARE, 1, 0), (FREE, 1), (FREE, 0), (ALLOC, 2)]
    assert packed((90,), traces=[events], sizes=(30, 30, 10)).live == 30


def test_memory_that_buffers_share_is_held_until_the_last_of_them_is_freed():
    """A loop's argument, whose place its body and its result take: 1 is in the memory of 0, and 2 in that of 1."""
    events = [(ALLOC, 0), (SHARE, 1, 0), (FREE, 0), (SHARE, 2, 1), (FREE, 1), (ALLOC, 3), (FREE, 3), (FREE, 2), (ALLOC, 4)]
    assert packed((90,), traces=[events], sizes=(30, 30, 30, 5, 33)).live == 35


def test_a_heap_is_known_by_its_buffers_for_allocations_are_numbered_anew_after_it_is_simulated():
    """A heap of the device's memory and one on the chip, which is the larger."""
    traces = [[(ALLOC, 0), (ALLOC, 1)], [(ALLOC, 2)]]
    found = packed((90,), (500, "on chip"), traces=traces, sizes=(30, 20, 400), placed={0: [(0, 0), (1, 30)], 1: [(2, 0)]})
    assert (found.live, found.heap) == (50, 90)


def test_what_was_moved_into_a_heap_from_an_allocation_of_its_own_is_alive_beside_it():
    placed = {0: [(0, 0), (1, 40), (2, 40), (3, 80)]}  # 1 and 2 take turns
    assert packed((90,), traces=[[(ALLOC, 0)]], sizes=(30, 20, 25, 7), placed=placed).live == 30 + 25 + 7


@pytest.mark.parametrize(("tables", "live"), [((), 90), ((0,), 0)])
def test_without_a_trace_all_of_a_heap_is_alive_unless_it_holds_tables_of_tuples(tables, live):
    assert packed((90,), sizes=(90,), tables=tables).live == live


def test_tables_of_tuples_in_a_heap_with_arrays_take_nothing_of_what_is_alive():
    placed = {0: [(0, 0), (1, 16384), (2, 32768)]}
    found = packed((32_780,), traces=[[(ALLOC, 0)]], sizes=(512, 512, 512), tables=(1, 2), placed=placed)
    assert (found.live, found.heap) == (512, 32_780)
