"""Read a scheduled program of a plan, as libtpu dumped it, into the answer to the plan."""

import math
import time
from collections.abc import Iterator

from workbench.core.sharding import axis_size
from workbench.cost.tpu_kernel_cycles import estimated_cycles, rates_for
from workbench.engine.compile.compile_targets import CLOCKS, compiler_of
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.hlo.compiled_kernels import visit_kernels
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.compiled import CompiledCollective, CompiledMemory, Scheduled
from workbench.reports.partitioned import Partitioned, PartitionedCollective
from workbench.spmd.ask_partitioner import gathered_whole
from workbench.spmd.buffer_assignment import PackedMemory, read_program
from workbench.spmd.device_groups import sub_axes_of
from workbench.spmd.hlo_module import Computation, HloModule
from workbench.spmd.locate_xla_collectives import Users, maker_of, operations_named, reader_of, users_of

_SUMS = ("all-reduce", "reduce-scatter")


def read_answer(program: bytes, plan: Plan, hardware: Hardware, begun: float, no_room: str, words: str) -> Partitioned:
    """Read what the compiler of `hardware` made of a plan: a serialised `HloProto` with buffer assignment. `begun`: when it was asked, by
    `time.perf_counter`; `no_room`: its message where the device's memory is too small; `words`: what it printed."""
    module, packed = read_program(program)
    kernels = list(visit_kernels(module))
    clock = CLOCKS[hardware.chip.target]
    seconds = estimated_cycles(module, kernels, rates_for(hardware.chip, clock)) / clock
    scheduled = Scheduled(str(hardware), compiler_of(hardware), _memory(packed), sum(each.runs for each in kernels), seconds, no_room)
    return Partitioned(
        hardware.chip.platform,
        plan.mesh.size,
        scheduled.compiler,
        tuple(_list_collectives(module, plan)),
        gathered_whole(words),
        time.perf_counter() - begun,
        plan.mesh.size,
        scheduled,
    )


def _memory(packed: PackedMemory) -> CompiledMemory:
    return CompiledMemory(packed.arguments, packed.outputs, packed.aliased, packed.live, live=packed.live, packed=packed.heap)


def _list_collectives(module: HloModule, plan: Plan) -> Iterator[PartitionedCollective]:
    """The collectives of the program, each linked to the operations that it is named after; a combined one has an entry per part."""
    ends = _CollectiveEnds(module)
    for each in collectives_of(module, plan.mesh, sub_axes_of):
        kind, devices = each.part_of or each.kind, math.prod(axis_size(axis, plan.mesh) for axis in each.axes)
        for number, (payload, path) in enumerate(zip(each.parts or (each.payload,), each.part_paths or (each.path,), strict=True)):
            made_by, read_by = ends.of(each, number, _parse_operation(path), kind)
            result = payload // devices if kind == "reduce-scatter" else payload
            yield PartitionedCollective(kind, each.axes, payload, result, each.count, made_by, read_by, ends.is_only_reader(each))


def _parse_operation(path: str) -> int:
    return next(iter(operations_named(path)), -1)


class _CollectiveEnds:
    """Finds the operations that make and read the value a collective sends."""

    def __init__(self, module: HloModule) -> None:
        self._homes = {each.name: (computation, each) for computation in module.computations.values() for each in computation.values()}
        self._users: dict[int, Users] = {}

    def of(self, collective: CompiledCollective, number: int, own_operation: int, kind: str) -> tuple[int, int]:
        """The operations that make and read one part, by number; -1 if unknown. A sum is named after what it adds up, as are those that JAX
        0.11 marks; others after their readers."""
        computation, instruction = self._homes[collective.name]
        several = len(instruction.operands) > 1
        if kind in _SUMS:
            return own_operation, reader_of(self._users_in(computation), instruction, number if several else None, own_operation)
        if (reader := _parse_operation(collective.reader)) >= 0:
            return own_operation, reader
        return (-1 if several else maker_of(computation, computation[instruction.operands[0]], own_operation)), own_operation

    def is_only_reader(self, collective: CompiledCollective) -> bool:
        """Whether nothing else reads what is sent."""
        computation, instruction = self._homes[collective.name]
        return len(instruction.operands) == 1 and len(self._users_in(computation).get(instruction.operands[0], ())) == 1

    def _users_in(self, computation: Computation) -> Users:
        if id(computation) not in self._users:
            self._users[id(computation)] = users_of(computation)
        return self._users[id(computation)]
