"""A scheduled program of a plan, as libtpu wrote it down, read into the answer to the plan."""

import math
import time
from collections.abc import Iterator

from workbench.compiled import CompiledCollective, CompiledMemory, Scheduled
from workbench.cost.scheduled import estimated_cycles, rates_of
from workbench.engine.hlo_kernels import working_visits
from workbench.engine.readback import collectives_of
from workbench.engine.targets import CLOCKS, compiler_of
from workbench.hardware import Hardware
from workbench.partitioned import Partitioned, PartitionedCollective
from workbench.plan import Plan
from workbench.sharding import axis_size
from workbench.spmd.collectives import Users, maker_of, operations_named, users_of
from workbench.spmd.module import HloModule
from workbench.spmd.packed import Packed, read_program
from workbench.spmd.partition import gathered_whole

_SUMS = ("all-reduce", "reduce-scatter")


def read_answer(program: bytes, plan: Plan, hardware: Hardware, begun: float, no_room: str, words: str) -> Partitioned:
    """What the compiler of `hardware` made of a plan: a serialised `HloProto` with buffer assignment. `begun`: when it was asked, by
    `time.perf_counter`; `no_room`: its words where the device is too small; `words`: what it printed."""
    module, packed = read_program(program)
    kernels = list(working_visits(module))
    target = hardware.chip.target
    seconds = estimated_cycles(module, kernels, rates_of(target)) / CLOCKS[target]
    scheduled = Scheduled(str(hardware), compiler_of(hardware), _memory(packed), sum(each.runs for each in kernels), seconds, no_room)
    return Partitioned(
        hardware.chip.platform,
        plan.mesh.size,
        scheduled.compiler,
        tuple(_partitioned(module, plan)),
        gathered_whole(words),
        time.perf_counter() - begun,
        plan.mesh.size,
        scheduled,
    )


def _memory(packed: Packed) -> CompiledMemory:
    return CompiledMemory(packed.arguments, packed.outputs, packed.aliased, packed.live, live=packed.live, packed=packed.heap)


def _partitioned(module: HloModule, plan: Plan) -> Iterator[PartitionedCollective]:
    """The collectives of the program, each joined to the operations that it is named after; of a combined one an entry for each part."""
    ends = _Ends(module)
    for each in collectives_of(module, plan.mesh):
        kind, devices = each.part_of or each.kind, math.prod(axis_size(axis, plan.mesh) for axis in each.axes)
        for payload, path in zip(each.parts or (each.payload,), each.part_paths or (each.path,), strict=True):
            own = _number(path)
            made_by, read_by = (own, _number(each.reader)) if kind in _SUMS else (ends.maker(each, own), own)
            result = payload // devices if kind == "reduce-scatter" else payload
            yield PartitionedCollective(kind, each.axes, payload, result, each.count, made_by, read_by, ends.are_alone(each))


def _number(path: str) -> int:
    return next(iter(operations_named(path)), -1)


class _Ends:
    """What makes and what reads that which a collective sends."""

    def __init__(self, module: HloModule) -> None:
        self._homes = {each.name: (own, each) for own in module.computations.values() for each in own.values()}
        self._users: dict[int, Users] = {}

    def maker(self, collective: CompiledCollective, reader: int) -> int:
        """The operation that made it; -1 if that is not known, or if several arrays are sent."""
        own, instruction = self._homes[collective.name]
        return maker_of(own, own[instruction.operands[0]], reader) if len(instruction.operands) == 1 else -1

    def are_alone(self, collective: CompiledCollective) -> bool:
        """Whether nothing else reads it."""
        own, instruction = self._homes[collective.name]
        if id(own) not in self._users:
            self._users[id(own)] = users_of(own)
        return len(instruction.operands) == 1 and len(self._users[id(own)].get(instruction.operands[0], ())) == 1
