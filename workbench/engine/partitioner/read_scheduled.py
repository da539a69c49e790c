"""Read a scheduled program, dumped by libtpu, into the answer about a plan."""

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
    """Read the compiler's `HloProto` with buffer assignment for a plan.

    `begun`: `time.perf_counter()` of the question; `no_room`: the compiler's message if device memory is too small;
    `words`: its printed output.
    """
    module, packed = read_program(program)
    kernels = list(visit_kernels(module))
    clock = CLOCKS[hardware.chip.target]
    seconds = estimated_cycles(module, kernels, rates_for(hardware.chip, clock)) / clock
    scheduled = Scheduled(str(hardware), compiler_of(hardware), _memory(packed), sum(kernel.runs for kernel in kernels), seconds, no_room)
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
    ends = _CollectiveEnds(module)
    for collective in collectives_of(module, plan.mesh, sub_axes_of):
        kind, devices = collective.part_of or collective.kind, math.prod(axis_size(axis, plan.mesh) for axis in collective.axes)
        for number, (payload, path) in enumerate(
            zip(collective.parts or (collective.payload,), collective.part_paths or (collective.path,), strict=True)
        ):
            made_by, read_by = ends.of(collective, number, _parse_operation(path), kind)
            result = payload // devices if kind == "reduce-scatter" else payload
            yield PartitionedCollective(
                kind, collective.axes, payload, result, collective.count, made_by, read_by, ends.is_only_reader(collective)
            )


def _parse_operation(path: str) -> int:
    return next(iter(operations_named(path)), -1)


class _CollectiveEnds:
    """Finds the operations that make and read a collective's operand."""

    def __init__(self, module: HloModule) -> None:
        self._homes = {
            instruction.name: (computation, instruction)
            for computation in module.computations.values()
            for instruction in computation.values()
        }
        self._users: dict[int, Users] = {}

    def of(self, collective: CompiledCollective, number: int, own_operation: int, kind: str) -> tuple[int, int]:
        """Return the numbers of the operations that make and read one part; -1 if unknown.

        A sum is named after its operand, as are collectives marked by JAX 0.11; others after their readers.
        """
        computation, instruction = self._homes[collective.name]
        is_combined = len(instruction.operands) > 1
        if kind in _SUMS:
            return own_operation, reader_of(self._users_in(computation), instruction, number if is_combined else None, own_operation)
        reader = _parse_operation(collective.reader)
        if reader >= 0 and own_operation >= 0:
            return own_operation, reader
        reader = max(reader, own_operation)
        return (-1 if is_combined else maker_of(computation, computation[instruction.operands[0]], reader)), reader

    def is_only_reader(self, collective: CompiledCollective) -> bool:
        computation, instruction = self._homes[collective.name]
        return len(instruction.operands) == 1 and len(self._users_in(computation).get(instruction.operands[0], ())) == 1

    def _users_in(self, computation: Computation) -> Users:
        if id(computation) not in self._users:
            self._users[id(computation)] = users_of(computation)
        return self._users[id(computation)]
