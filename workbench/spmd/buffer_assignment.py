"""Memory by a compiler's buffer assignment: the allocations in the device's memory, and what is alive in them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from google.protobuf.message import DecodeError

from workbench.spmd import hlo_pb2
from workbench.spmd.hlo_module import HloModule, module_from
from workbench.spmd.hlo_shapes import DEVICE_MEMORY, TUPLE

_ALLOC, _FREE, _SHARE_WITH = 0, 1, 2  # kinds of event of a heap simulator's trace


class PackedMemory(NamedTuple):
    """Bytes in the device's memory.

    - `aliased`: results in the memory of arguments; `live`: temporaries alive at once at the worst moment, which is what
      `peak_memory_in_bytes` counts beside arguments and results where no other memory holds more;
    - `heap`: bytes of temporaries as they are packed.
    """

    arguments: int
    outputs: int
    aliased: int
    live: int
    heap: int


def read_program(serialized: bytes) -> tuple[HloModule, PackedMemory]:
    """The module of a dumped `HloProto`, and its buffer assignment's memory."""
    program = hlo_pb2.Program.FromString(serialized)
    return module_from(program.hlo_module), _read_memory(program)


def read_packed_memory(serialized: bytes) -> PackedMemory | None:
    """Only the memory; `None` where the program was not written completely, on a full disk, say."""
    try:
        return read_program(serialized)[1]
    except DecodeError:
        return None


def _read_memory(program: hlo_pb2.Program) -> PackedMemory:
    assignment = program.buffer_assignment
    on_device = [each for each in assignment.buffer_allocations if each.color == DEVICE_MEMORY]
    arguments = [each for each in on_device if each.is_entry_computation_parameter]
    results = [each for each in on_device if each.maybe_live_out]
    rest = [each for each in on_device if not (each.is_entry_computation_parameter or each.maybe_live_out)]
    heaps = [each for each in rest if not (each.is_thread_local or each.is_constant)]
    live = _HeapLiveness(program)
    return PackedMemory(
        sum(each.size for each in arguments),
        sum(each.size for each in results),
        sum(each.size for each in arguments if each.maybe_live_out),
        sum(map(live.bytes_of, heaps)),
        sum(each.size for each in heaps),
    )


class _HeapLiveness:
    """What is alive at once in an allocation.

    XLA moves the temporaries of several allocations into one, end to end (`BufferAssignment::CombineTempAllocations`), and numbers
    allocations anew thereafter: a trace belongs to the allocation that has its buffers, whatever number it names.
    """

    def __init__(self, program: hlo_pb2.Program) -> None:
        assignment = program.buffer_assignment
        self._sizes = {each.id: each.size for each in assignment.logical_buffers}
        self._tables = frozenset(_find_tuple_tables(program))
        self._traces = [(frozenset(event.buffer_id for event in each.events), each.events) for each in assignment.heap_simulator_traces]

    def bytes_of(self, allocation: hlo_pb2.BufferAllocation) -> int:
        """Bytes at the worst moment of each heap simulated in it, and of the buffers that were given memory of their own."""
        here = {each.logical_buffer_id for each in allocation.assigned}
        traces = [(buffers, events) for buffers, events in self._traces if not here.isdisjoint(buffers)]
        simulated = self._tables.union(*(buffers for buffers, _ in traces))
        own: dict[int, int] = {}  # by offset: buffers that take turns are at the same
        for each in allocation.assigned:
            if each.logical_buffer_id not in simulated:
                own[each.offset] = max(own.get(each.offset, 0), each.size)
        return sum(_peak_live_bytes(events, self._sizes) for _, events in traces) + sum(own.values())


def _find_tuple_tables(program: hlo_pb2.Program) -> Iterator[int]:
    """The buffers for the addresses of a tuple's elements. They hold none of the program's values, and where a heap has nothing else libtpu
    states that it has no temporaries, though it sets 16 KiB of the heap apart for each."""
    shapes = {each.id: each.shape for computation in program.hlo_module.computations for each in computation.instructions}
    for buffer in program.buffer_assignment.logical_buffers:
        shape = shapes[buffer.defined_at.instruction_id]
        for index in buffer.defined_at.shape_index:
            shape = shape.tuple_shapes[index]
        if shape.element_type == TUPLE:
            yield buffer.id


def _peak_live_bytes(events: Iterable[hlo_pb2.HeapSimulatorTrace.Event], sizes: Mapping[int, int]) -> int:
    """Bytes alive at once at the worst moment (`HeapSimulatorTrace`). A buffer that shares another's memory counts nothing besides, and the
    memory is held until both are freed (as XProf counts, `hlo_proto_to_memory_visualization_utils.cc`)."""
    owners: dict[int, int] = {}  # of the buffers that are alive, the one whose memory each is in
    shared: Counter[int] = Counter()
    now = most = 0
    for each in events:
        if each.kind == _ALLOC:
            owners[each.buffer_id] = each.buffer_id
            shared[each.buffer_id] += 1
            now += sizes.get(each.buffer_id, 0)
            most = max(most, now)
        elif each.kind == _SHARE_WITH and each.buffer_id not in owners:
            owner = owners.get(each.share_with_canonical_id, each.share_with_canonical_id)
            owners[each.buffer_id] = owner
            shared[owner] += 1
        elif each.kind == _FREE and each.buffer_id in owners:
            owner = owners.pop(each.buffer_id)
            shared[owner] -= 1
            now -= sizes.get(owner, 0) if not shared[owner] else 0
    return most
