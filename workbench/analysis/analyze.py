"""`analyze`: a plan to a report. Pure: same plan, same report; nothing executes, nothing is traced again."""

import functools
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

from workbench.analysis.compiled_report import with_compiled
from workbench.analysis.diagnose import diagnose
from workbench.core.program import Operation, Program
from workbench.core.program_cache import kept_with_program
from workbench.core.sharding import Sharding
from workbench.cost.compute import KernelTimes, kernel_times, moved_bytes
from workbench.cost.events import timeline
from workbench.cost.flops import flops_of, product_list, products_of
from workbench.cost.fusion.fusion import kernels_of
from workbench.cost.fusion.kernels import Kernels
from workbench.cost.fusion.narrowing import NARROW, narrowed_values
from workbench.cost.graph import graph_of
from workbench.cost.host import host_memory, with_transfers
from workbench.cost.kernel_list import kernel_list
from workbench.cost.lifetimes import Lifetimes, lifetimes_of
from workbench.cost.memory import MemoryOverStep
from workbench.cost.on_chip import OnChip, on_chip
from workbench.cost.step_time import collective_costs, step_time
from workbench.cost.tiles import laid_out_bytes
from workbench.cost.timeline import Region, regions_of, simulate_step
from workbench.hardware.hardware import Hardware
from workbench.pipeline.report import PipelineReport
from workbench.plan.edits import SetHardware
from workbench.plan.plan import Plan
from workbench.propagation import (
    HALVES,
    Dims,
    Propagated,
    arguments_placed,
    backend_of,
    collectives,
    local_shape,
    no_collection,
    own_annotations,
    padding_list,
    partition,
    propagation_of,
    reshard_list,
    structure_of,
)
from workbench.propagation.collectives import Reshard as Send
from workbench.reports.partitioned import Partitioned
from workbench.reports.report import Placement, Report, Value
from workbench.spmd.join import with_answer

_MANY = 5_000  # operations: of as many, what a report keeps is worth not being looked through for garbage meanwhile


def analyze(plan: Plan, hardware: Hardware | None = None, answer: Partitioned | None = None) -> Report:
    """Everything the planner knows of a plan: Shardy's answer, and what it costs one device; its time if the hardware is known.

    With XLA's own `answer` to the plan, the collectives are those, and all that follows from them does; where the hardware's compiler gave
    it, memory is that compiler's, and kernels are those it made.
    """
    with no_collection() if len(plan.program.operations) > _MANY else nullcontext():
        report = _analyze(plan, hardware or plan.hardware, answer)
    return with_compiled(report, answer.scheduled) if answer is not None and answer.scheduled is not None else report


def _analyze(plan: Plan, hardware: Hardware | None, answer: Partitioned | None) -> Report:
    planned = partition(plan, hardware)
    partitioned = planned if answer is None else with_answer(planned, answer, plan.mesh)
    program, mesh, placed = plan.program, plan.mesh, arguments_placed(plan, partitioned)
    backend = backend_of(hardware)
    fixed = _fixed(program, recomputes=_recomputes(hardware), turns=backend.turns_operands, narrows=backend.narrows_products)
    tile, capacity = (hardware.chip.array_tile, hardware.chip.memory) if hardware else ((), 0)
    local_bytes, held_bytes = _local_bytes(plan, partitioned, fixed, tile, widens=backend.widens_halves)
    times = kernel_times(fixed.kernels, partitioned, held_bytes, mesh, hardware.chip) if hardware else None
    memory = MemoryOverStep(program, partitioned, fixed.lifetimes, held_bytes, _on_chip(fixed, partitioned, times, hardware))
    products, (held, moved) = products_of(partitioned), host_memory(partitioned, local_bytes)
    costs = collective_costs(partitioned.reshards, plan, hardware) if hardware else []
    report = Report(
        plan=plan,
        arguments=tuple(Placement(tensor, each, mesh) for tensor, each in zip(program.arguments, placed, strict=True)),
        results=tuple(Placement(tensor, Sharding(dims), mesh) for tensor, dims in zip(program.results, partitioned.results, strict=True)),
        collectives=collectives(program, mesh, partitioned.structure, partitioned.reshards, [each.seconds for each in costs]),
        memory=replace(memory.memory(), host=held, capacity=capacity),
        flops=flops_of(program, products, mesh.size),
        traffic=moved_bytes(fixed.kernels, local_bytes),
        kernels=int(fixed.kernels.times.sum()),
        host_traffic=moved,
        list_values=functools.partial(_values, plan, partitioned),
        make_memory_curve=memory.curve,
        list_alive=memory.alive,
        list_alive_at=memory.alive,
        list_products=functools.partial(product_list, program, partitioned),
        make_graph=functools.partial(graph_of, program, partitioned, fixed.kernels, mesh),
        list_reshards=functools.partial(reshard_list, plan, partitioned, functools.partial(_seconds, plan, hardware)),
        list_padding=functools.partial(padding_list, plan, partitioned),
        make_pipeline=functools.partial(_pipeline, plan, hardware),
        make_run=functools.partial(_as_run, plan, hardware),
        make_propagation=functools.partial(propagation_of, plan, partitioned.dims),
        read_own=functools.partial(own_annotations, program),
        hardware=hardware,
        partitioned=answer,
    )
    if hardware and times:
        simulated = simulate_step(partitioned, fixed.kernels, fixed.regions, (times.busy + times.launch).tolist(), costs)
        report = replace(
            report,
            step_time=with_transfers(step_time(hardware, fixed.kernels, times, simulated, products, mesh.size), moved, hardware.chip),
            make_timeline=functools.partial(timeline, program, partitioned, fixed.kernels, simulated),
            list_kernels=functools.partial(kernel_list, program, partitioned, fixed.kernels, times),
            make_graph=functools.partial(graph_of, program, partitioned, fixed.kernels, mesh, times.busy + times.launch, simulated),
        )
    return diagnose(report, planned, partitioned.edges)  # edits are tried on what Shardy says, and compared with that


def _seconds(plan: Plan, hardware: Hardware | None, sends: list[Send]) -> list[float]:
    """Of one execution of each; 0 without hardware."""
    return [each.seconds for each in collective_costs(sends, plan, hardware)] if hardware else [0.0] * len(sends)


def _pipeline(plan: Plan, hardware: Hardware | None) -> PipelineReport | None:
    """Pieces of a pipeline are programs of their own, analysed from above."""
    if plan.pipeline is None:
        return None
    from workbench.pipeline.planned import pipeline_report

    return pipeline_report(plan if plan.hardware == hardware else SetHardware(hardware).apply(plan))


def _as_run(plan: Plan, hardware: Hardware | None) -> Report | None:
    """A pipeline in step is another program, planned as that."""
    if plan.pipeline is None or plan.pipeline.engine != "spmd":
        return None
    from workbench.pipeline.spmd_program import in_one_program

    return analyze(in_one_program(plan), hardware)


class _Fixed(NamedTuple):
    """What no layout changes."""

    lifetimes: Lifetimes
    kernels: Kernels
    regions: tuple[Region, ...]
    types: tuple[int, ...]  # of each value: a number that values of its shape and type have
    dtypes: tuple[str, ...]  # of each value, as it is stored


@kept_with_program(220)
def _fixed(program: Program, *, recomputes: bool, turns: bool, narrows: bool) -> _Fixed:
    structure = structure_of(program)
    narrow = narrowed_values(structure) if narrows else frozenset[int]()
    dtypes = tuple(NARROW if number in narrow else value.dtype for number, value in enumerate(structure.values))
    kernels = kernels_of(structure, dtypes, recomputes=recomputes)
    numbers: dict[tuple[tuple[int, ...], str], int] = {}
    types = tuple(numbers.setdefault((value.shape, dtype), len(numbers)) for value, dtype in zip(structure.values, dtypes, strict=True))
    lifetimes = lifetimes_of(program, structure, kernels, recomputes=recomputes, turns=turns)
    return _Fixed(lifetimes, kernels, regions_of(structure, kernels), types, dtypes)


def _on_chip(fixed: _Fixed, partitioned: Propagated, times: KernelTimes | None, hardware: Hardware | None) -> OnChip | None:
    if hardware is None or times is None or not hardware.chip.on_chip:
        return None
    return on_chip(partitioned.structure, fixed.kernels, times, fixed.lifetimes.extents, hardware.chip)


def _recomputes(hardware: Hardware | None) -> bool:
    """XLA:TPU fuses elementwise operations into whatever reads them."""
    return hardware is not None and hardware.chip.platform == "tpu"


def _local_bytes(plan: Plan, partitioned: Propagated, fixed: _Fixed, tile: tuple[int, ...], *, widens: bool) -> tuple[list[int], list[int]]:
    """Bytes of each value on one device, plain and padded to tiles; 0 where Shardy dropped the operation as dead.

    A back end that `widens` computes two-byte floats as four-byte ones; arguments stay as they are.
    """
    known: dict[tuple[int, int, bool], tuple[int, int]] = {}
    found = []
    for number, stored, dims, value in zip(fixed.types, fixed.dtypes, partitioned.dims, partitioned.structure.values, strict=True):
        wide = widens and value.born >= 0
        key = number, id(dims), wide  # equal placements are one object for the most part, and hashing them is slow
        if key not in known:
            shape = () if dims is None else local_shape(value.shape, dims, plan.mesh)
            dtype = "float32" if wide and stored in HALVES else stored
            known[key] = (0, 0) if dims is None else (laid_out_bytes(shape, dtype), laid_out_bytes(shape, dtype, tile))
        found.append(known[key])
    return [plain for plain, _ in found], [padded for _, padded in found]


def _values(plan: Plan, partitioned: Propagated) -> tuple[Value, ...]:
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
