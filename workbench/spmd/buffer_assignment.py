"""Memory by a compiler's buffer assignment: the allocations in the device's memory, and what is alive in them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from google.protobuf.message import DecodeError

from workbench.spmd import hlo_pb2
from workbench.spmd.hlo_module import HloModule, module_from
from workbench.spmd.hlo_shapes import DEVICE_MEMORY

_ALLOC, _FREE = 0, 1  # kinds of event of a heap simulator's trace


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
    return module_from(program.hlo_module), _read_assignment(program.buffer_assignment)


def read_packed_memory(serialized: bytes) -> PackedMemory | None:
    """Only the memory; `None` where the program was not written completely, on a full disk, say."""
    try:
        return read_program(serialized)[1]
    except DecodeError:
        return None


def _read_assignment(assignment: hlo_pb2.BufferAssignment) -> PackedMemory:
    on_device = [each for each in assignment.buffer_allocations if each.color == DEVICE_MEMORY]
    arguments = [each for each in on_device if each.is_entry_computation_parameter]
    results = [each for each in on_device if each.maybe_live_out]
    rest = [each for each in on_device if not (each.is_entry_computation_parameter or each.maybe_live_out)]
    heaps = [each for each in rest if not (each.is_thread_local or each.is_constant)]
    sizes = {each.id: each.size for each in assignment.logical_buffers}
    live = {each.buffer_allocation_index: _peak_live_bytes(each.events, sizes) for each in assignment.heap_simulator_traces}
    return PackedMemory(
        sum(each.size for each in arguments),
        sum(each.size for each in results),
        sum(each.size for each in arguments if each.maybe_live_out),
        sum(live.get(each.index, 0 if each.is_tuple else each.size) for each in heaps),
        sum(each.size for each in heaps),
    )


def _peak_live_bytes(events: Iterable[hlo_pb2.HeapSimulatorTrace.Event], sizes: Mapping[int, int]) -> int:
    """Bytes alive at once at the worst moment (`HeapSimulatorTrace`); a buffer that shares another's memory counts nothing."""
    alive: set[int] = set()
    now = most = 0
    for each in events:
        if each.kind == _ALLOC:
            alive.add(each.buffer_id)
            now += sizes.get(each.buffer_id, 0)
            most = max(most, now)
        elif each.kind == _FREE and each.buffer_id in alive:
            alive.discard(each.buffer_id)
            now -= sizes.get(each.buffer_id, 0)
    return most
