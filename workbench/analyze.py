"""`analyze`: a plan to a report. Pure: same plan, same report; nothing executes, nothing is traced again."""

import functools
import math
from collections import Counter
from dataclasses import replace

from workbench.cost.memory import Lifetimes, lifetimes_of, memory
from workbench.cost.step_time import step_time
from workbench.diagnose import diagnose
from workbench.hardware import Hardware
from workbench.partition import Dims, Partitioned, collectives, local_shape, partition, structure_of
from workbench.plan import Plan
from workbench.program import Operation, Program
from workbench.report import Flops, Placement, Report, Value
from workbench.sharding import Sharding
from workbench.tensor import itemsize


def analyze(plan: Plan, hardware: Hardware | None = None) -> Report:
    """Everything the planner knows of a plan: Shardy's answer, and what it costs one device; its time if the hardware is known."""
    hardware = hardware or plan.hardware
    partitioned = partition(plan)
    program, mesh = plan.program, plan.mesh
    local_bytes = _local_bytes(plan, partitioned)
    flops = _flops(plan, partitioned)
    report = Report(
        plan=plan,
        arguments=tuple(Placement(tensor, each, mesh) for tensor, each in zip(program.arguments, plan.argument_shardings, strict=True)),
        results=tuple(Placement(tensor, Sharding(dims), mesh) for tensor, dims in zip(program.results, partitioned.results, strict=True)),
        collectives=collectives(program, mesh, partitioned.structure, partitioned.reshards),
        memory=memory(program, partitioned, _lifetimes(program), local_bytes),
        flops=flops,
        traffic=_traffic(partitioned, local_bytes),
        kernels=partitioned.structure.kernels,
        list_values=functools.partial(_values, plan, partitioned),
    )
    timed = replace(report, step_time=step_time(report, hardware)) if hardware else report
    return diagnose(timed, partitioned)


@functools.lru_cache(maxsize=16)
def _lifetimes(program: Program) -> Lifetimes:
    return lifetimes_of(program, structure_of(program))


def _local_bytes(plan: Plan, partitioned: Partitioned) -> list[int]:
    """Bytes of each value on one device; 0 where Shardy dropped the operation as dead."""
    known: dict[tuple[object, ...], int] = {}
    found = []
    for value, dims in zip(partitioned.structure.values, partitioned.dims, strict=True):
        if dims is None:
            found.append(0)
            continue
        key = (value.shape, value.dtype, dims)
        if key not in known:
            known[key] = math.ceil(math.prod(local_shape(value.shape, dims, plan.mesh)) * itemsize(value.dtype))
        found.append(known[key])
    return found


def _flops(plan: Plan, partitioned: Partitioned) -> Flops:
    structure = partitioned.structure
    times = [structure.regions[op.region].times for op in structure.ops]
    unique = sum(structure.ops[index].work.flops * times[index] for index in partitioned.local_flops)
    local = sum(count * times[index] for index, count in partitioned.local_flops.items())
    return Flops(unique, local, plan.mesh.size)


def _traffic(partitioned: Partitioned, local_bytes: list[int]) -> int:
    """Each stored value is written once and read by each of its readers."""
    total = 0
    regions = partitioned.structure.regions
    for value, count in zip(partitioned.structure.values, local_bytes, strict=True):
        if value.stored and value.alias is None:
            total += count * (max(value.reads, 0) + (value.born >= 0)) * regions[value.region].times
    return total


def _values(plan: Plan, partitioned: Partitioned) -> tuple[Value, ...]:
    """The intermediate values, alike ones together, in order of appearance."""
    structure = partitioned.structure
    counts: Counter[tuple[Operation, Dims]] = Counter()
    for operation, op in zip(plan.program.operations, structure.ops, strict=True):
        if op.results and operation.kind not in _NO_VALUES and (dims := partitioned.dims[op.results[0]]) is not None:
            counts[operation, dims] += structure.regions[op.region].times
    return tuple(
        Value(
            each.path,
            each.kind,
            each.dtype,
            each.shape,
            each.dims,
            Sharding(dims),
            local_shape(each.shape, dims, plan.mesh),
            count,
            each.source,
        )
        for (each, dims), count in counts.items()
    )


_NO_VALUES = ("constant", "data_flow_edge", "sharding_constraint", "return")  # what stands for other values or for none
