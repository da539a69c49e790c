"""Memory from a compiler's buffer assignment: allocations in device memory, and their live bytes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from google.protobuf.message import DecodeError

from workbench.spmd import hlo_pb2
from workbench.spmd.hlo_module import HloModule, module_from
from workbench.spmd.hlo_shapes import DEVICE_MEMORY, TUPLE

_ALLOC, _FREE, _SHARE_WITH = 0, 1, 2  # event kinds of a heap simulator trace


class PackedMemory(NamedTuple):
    """Bytes in device memory.

    - `aliased`: results in the memory of arguments;
    - `live`: peak of temporaries alive at once, which is the part of `peak_memory_in_bytes` beside arguments and
      results, unless another memory holds more;
    - `heap`: bytes of temporaries as packed.
    """

    arguments: int
    outputs: int
    aliased: int
    live: int
    heap: int


def read_program(serialized: bytes) -> tuple[HloModule, PackedMemory]:
    """Parse a dumped `HloProto`: its module, and the memory of its buffer assignment."""
    program = hlo_pb2.Program.FromString(serialized)
    return module_from(program.hlo_module), _read_memory(program)


def read_packed_memory(serialized: bytes) -> PackedMemory | None:
    """Parse the memory alone; `None` if the program was written incompletely, for instance on a full disk."""
    try:
        return read_program(serialized)[1]
    except DecodeError:
        return None


def _read_memory(program: hlo_pb2.Program) -> PackedMemory:
    assignment = program.buffer_assignment
    allocations = [allocation for allocation in assignment.buffer_allocations if allocation.color == DEVICE_MEMORY]
    arguments = [allocation for allocation in allocations if allocation.is_entry_computation_parameter]
    results = [allocation for allocation in allocations if allocation.maybe_live_out]
    rest = [allocation for allocation in allocations if not (allocation.is_entry_computation_parameter or allocation.maybe_live_out)]
    heaps = [allocation for allocation in rest if not (allocation.is_thread_local or allocation.is_constant)]
    liveness = _HeapLiveness(program)
    return PackedMemory(
        sum(allocation.size for allocation in arguments),
        sum(allocation.size for allocation in results),
        sum(allocation.size for allocation in arguments if allocation.maybe_live_out),
        sum(map(liveness.bytes_of, heaps)),
        sum(allocation.size for allocation in heaps),
    )


class _HeapLiveness:
    """Live bytes of an allocation.

    XLA combines the temporaries of several allocations into one, end to end
    (`BufferAssignment::CombineTempAllocations`), and then renumbers allocations: a trace belongs to the allocation that
    has its buffers, whatever number it names.
    """

    def __init__(self, program: hlo_pb2.Program) -> None:
        assignment = program.buffer_assignment
        self._sizes = {buffer.id: buffer.size for buffer in assignment.logical_buffers}
        self._tables = frozenset(_find_tuple_tables(program))
        self._traces = [(frozenset(event.buffer_id for event in trace.events), trace.events) for trace in assignment.heap_simulator_traces]

    def bytes_of(self, allocation: hlo_pb2.BufferAllocation) -> int:
        """Return the sum of each simulated heap's peak and of the buffers with separate memory."""
        buffer_ids = {assigned.logical_buffer_id for assigned in allocation.assigned}
        traces = [(buffers, events) for buffers, events in self._traces if not buffer_ids.isdisjoint(buffers)]
        simulated = self._tables.union(*(buffers for buffers, _ in traces))
        separate: dict[int, int] = {}  # by offset: buffers that reuse memory have the same
        for assigned in allocation.assigned:
            if assigned.logical_buffer_id not in simulated:
                separate[assigned.offset] = max(separate.get(assigned.offset, 0), assigned.size)
        return sum(_peak_live_bytes(events, self._sizes) for _, events in traces) + sum(separate.values())


def _find_tuple_tables(program: hlo_pb2.Program) -> Iterator[int]:
    """Yield the buffers with the element addresses of tuples.

    They hold no values; libtpu reserves 16 KiB of the heap for each, but reports none as temporaries if there is
    nothing else.
    """
    shapes = {
        instruction.id: instruction.shape for computation in program.hlo_module.computations for instruction in computation.instructions
    }
    for buffer in program.buffer_assignment.logical_buffers:
        shape = shapes[buffer.defined_at.instruction_id]
        for index in buffer.defined_at.shape_index:
            shape = shape.tuple_shapes[index]
        if shape.element_type == TUPLE:
            yield buffer.id


def _peak_live_bytes(events: Iterable[hlo_pb2.HeapSimulatorTrace.Event], sizes: Mapping[int, int]) -> int:
    """Return the peak of live bytes (`HeapSimulatorTrace`).

    Shared memory counts once, until both buffers are freed (like XProf, `hlo_proto_to_memory_visualization_utils.cc`).
    """
    owners: dict[int, int] = {}  # live buffer -> buffer that owns its memory
    shared: Counter[int] = Counter()
    live = peak = 0
    for event in events:
        if event.kind == _ALLOC:
            owners[event.buffer_id] = event.buffer_id
            shared[event.buffer_id] += 1
            live += sizes.get(event.buffer_id, 0)
            peak = max(peak, live)
        elif event.kind == _SHARE_WITH and event.buffer_id not in owners:
            owner = owners.get(event.share_with_canonical_id, event.share_with_canonical_id)
            owners[event.buffer_id] = owner
            shared[owner] += 1
        elif event.kind == _FREE and event.buffer_id in owners:
            owner = owners.pop(event.buffer_id)
            shared[owner] -= 1
            live -= sizes.get(owner, 0) if not shared[owner] else 0
    return peak
