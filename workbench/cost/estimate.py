"""`estimate` predicts memory, communication, computation and time of one program on one mesh.

Pure and deterministic: nothing is executed or retraced. The plan's pipeline is ignored: this is the cost of the whole
program, or of one block as a separate program.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.mesh import Mesh
from workbench.core.offload import STREAMED
from workbench.core.program import Program
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role
from workbench.cost.estimate_step_time import collective_costs, decomposed_collectives, step_time
from workbench.cost.fusion.eager_kernels import eager_kernels_of
from workbench.cost.fusion.fuse_operations import kernels_of
from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.fusion.simplify_operations import NARROW, narrowed_values
from workbench.cost.kept_and_deferred import Cost, add_state_copies, bucket_bytes, defer_sums, kernels_of_weights, shareable_values
from workbench.cost.kernel_times import KernelTimes, kernel_times, moved_bytes
from workbench.cost.lifetimes import Lifetimes, lifetimes_of
from workbench.cost.memory import MemoryOverStep
from workbench.cost.on_chip_memory import on_chip
from workbench.cost.simulate_overlap import SimulatedStep, simulate_step
from workbench.cost.step_flops import count_dot_flops, flops_of
from workbench.cost.tile_padding import tiled_bytes
from workbench.cost.timeline_regions import TimelineRegion, regions_of
from workbench.cost.windowed_dots import plan_windowed_dots
from workbench.hardware.hardware import Chip, Hardware
from workbench.plan.plan import Plan
from workbench.propagation import (
    TWO_BYTE_FLOATS,
    Propagated,
    backend_of,
    collectives,
    gc_paused,
    local_shape,
    partition,
    read_argument_placements,
    structure_of,
)
from workbench.propagation.structure.program_structure import Op, Structure, TracedValue, returned_values
from workbench.reports.collective import Collective
from workbench.reports.device_memory import Memory
from workbench.reports.partitioned import Partitioned
from workbench.reports.placement import Placement
from workbench.reports.step_time import Flops, StepTime
from workbench.spmd.replace_shardy_collectives import with_xla_collectives

_MANY = 5_000  # operations; for larger programs garbage collection would be slow


@dataclass(frozen=True)
class Estimate:
    """A plan's figures for one device, with intermediate results.

    - `planned` is Shardy's result; `partitioned` the same, or with XLA's own collectives if given;
    - `times`, `simulated` and `step_time` (seconds) need hardware, else `None`;
    - for a pipeline task: `once`, seconds of kernels that run only in the first micro-batch, excluded elsewhere;
      `shareable`, the maximum seconds saved per micro-batch if replicas share parameters and gradients;
    - `traffic`: bytes read and written per step; `host_traffic`: bytes to and from host memory per step.
    """

    plan: Plan
    hardware: Hardware | None
    planned: Propagated
    partitioned: Propagated
    kernels: Kernels
    over_step: MemoryOverStep
    costs: tuple[Cost, ...]
    times: KernelTimes | None
    simulated: SimulatedStep | None
    memory: Memory
    flops: Flops
    traffic: int
    host_traffic: int
    step_time: StepTime | None
    once: float = 0.0
    shareable: float = 0.0

    @cached_property
    def arguments(self) -> tuple[Placement, ...]:
        plan = self.plan
        placed = zip(plan.program.arguments, read_argument_placements(plan, self.partitioned), strict=True)
        return tuple(Placement(tensor, sharding, plan.mesh) for tensor, sharding in placed)

    @cached_property
    def results(self) -> tuple[Placement, ...]:
        placed = zip(self.plan.program.results, self.partitioned.results, strict=True)
        return tuple(Placement(tensor, Sharding(dims), self.plan.mesh) for tensor, dims in placed)

    @cached_property
    def collectives(self) -> tuple[Collective, ...]:
        partitioned = self.partitioned
        return collectives(
            self.plan.program, self.plan.mesh, partitioned.structure, partitioned.reshards, [cost.seconds for cost in self.costs]
        )


def estimate(plan: Plan, hardware: Hardware | None = None, answer: Partitioned | None = None, *, own_mesh: Mesh | None = None) -> Estimate:
    """Return the cost of a plan on one device, with Shardy's or XLA's (`answer`) collectives.

    `own_mesh` has the mesh axes whose devices run this program; along the others they run other programs (pipeline
    stages). Compiler decisions that depend on all axes use these. Raises `PartitionError` if Shardy rejects the plan.
    """
    hardware = hardware or plan.hardware
    with gc_paused() if len(plan.program.operations) > _MANY else nullcontext():
        planned = partition(plan, hardware)
        partitioned = planned if answer is None else with_xla_collectives(planned, answer, plan.mesh)
        return _estimate_cost(plan, hardware, planned, partitioned, own_mesh)


def estimate_on(found: Estimate, hardware: Hardware) -> Estimate:
    """Return the estimate on other hardware, partitioning again only for another back end."""
    if backend_of(hardware) != backend_of(found.hardware):
        return estimate(found.plan, hardware)
    return _estimate_cost(found.plan, hardware, found.planned, found.partitioned, None)


def _widens_in_products(hardware: Hardware) -> bool:
    """XLA's Triton products convert an operand of few bits (`GemmFusion`); on a TPU, every reader converts anyway."""
    return hardware.chip.platform not in ("tpu", "cpu") and (hardware.runtime.fuses or hardware.runtime.widens_in_products)


def estimate_propagated(plan: Plan, planned: Propagated, own_mesh: Mesh) -> Estimate:
    return _estimate_cost(plan, plan.hardware, planned, planned, own_mesh)


def _estimate_cost(plan: Plan, hardware: Hardware | None, planned: Propagated, partitioned: Propagated, own_mesh: Mesh | None) -> Estimate:
    program, mesh, backend = plan.program, plan.mesh, backend_of(hardware)
    fixed = _build_fixed(
        program,
        recomputes=hardware is not None and hardware.chip.platform == "tpu",
        copies_transposed=backend.copies_transposed_operands,
        narrows=backend.narrows_dot_operands,
        copies_to_host_late=backend.copies_to_host_late,
        fuses=hardware is None or hardware.runtime.fuses,
        sums_in_products=hardware is not None and hardware.runtime.sums_in_products,
        widens=hardware is not None and _widens_in_products(hardware),
    )
    tile, capacity = (hardware.chip.array_tile, hardware.chip.memory) if hardware else ((), 0)
    local_bytes, padded_bytes = _local_bytes(plan, partitioned, fixed, tile, widens=backend.widens_two_byte_floats)
    windows = plan_windowed_dots(fixed.kernels, partitioned, padded_bytes, own_mesh or mesh, hardware.chip) if hardware else {}
    times = kernel_times(fixed.kernels, partitioned, padded_bytes, mesh, hardware, windows, fixed.backward) if hardware else None
    once = shareable = 0.0
    if own_mesh is not None and hardware and times:
        unshared = [0 if value in fixed.shareable else size for value, size in enumerate(padded_bytes)]
        least = kernel_times(fixed.kernels, partitioned, unshared, mesh, hardware, windows, fixed.backward)
        if hardware.runtime.keeps_casts:
            times, once = times.without(sorted(fixed.of_weights))
            least, _ = least.without(sorted(fixed.of_weights))
        shareable = (times.total(fixed.kernels.times) - least.total(fixed.kernels.times)) / hardware.chip.efficiency_of("beside")
    if hardware and hardware.runtime.float32_copies:
        add_state_copies(program, partitioned.structure, padded_bytes, hardware.runtime)
    in_place = hardware is not None and hardware.runtime.updates_in_place
    placed = None
    if hardware and times and hardware.chip.on_chip:
        placed = on_chip(partitioned.structure, fixed.kernels, times, fixed.lifetimes.extents, hardware.chip)
    buckets = bucket_bytes(plan, hardware.runtime) if hardware and own_mesh is None else 0
    sizes = program, partitioned, fixed.lifetimes, padded_bytes
    over_step = MemoryOverStep(*sizes, placed, updates_in_place=in_place, buckets=buckets)
    dot_flops, host = count_dot_flops(partitioned, plan.mesh), host_memory(program, partitioned, local_bytes)
    windowed = decomposed_collectives(partitioned) if hardware and hardware.runtime.decomposes else windows.keys()
    costs = tuple(collective_costs(partitioned.reshards, plan, hardware, windowed)) if hardware else ()
    if own_mesh is not None and hardware and hardware.runtime.defers_sums:
        costs, deferred = defer_sums(partitioned, costs, fixed.sums)
        once += deferred
    simulated = seconds = None
    if hardware and times:
        busy = (times.busy + times.launch).tolist()
        beside = hardware.chip.efficiency_of("beside")
        sums = None if own_mesh is None else fixed.sums
        simulated = simulate_step(partitioned, fixed.kernels, fixed.regions, busy, costs, hardware.runtime, beside, fixed.weights, sums)
        seconds = with_transfers(step_time(hardware, fixed.kernels, times, simulated, dot_flops, mesh.size), host, hardware.chip)
    return Estimate(
        plan=plan,
        hardware=hardware,
        planned=planned,
        partitioned=partitioned,
        kernels=fixed.kernels,
        over_step=over_step,
        costs=costs,
        times=times,
        simulated=simulated,
        memory=replace(over_step.memory(), host=host.bytes, capacity=capacity).held_by(hardware.runtime if hardware else None),
        flops=flops_of(program, partitioned.structure, dot_flops, mesh.size),
        traffic=moved_bytes(fixed.kernels, local_bytes),
        host_traffic=host.moved,
        step_time=seconds,
        once=once,
        shareable=shareable,
    )


class _Fixed(NamedTuple):
    """Facts independent of the layout."""

    lifetimes: Lifetimes
    kernels: Kernels
    regions: tuple[TimelineRegion, ...]
    types: tuple[int, ...]  # per value: a number shared by values of equal shape and type
    dtypes: tuple[str, ...]  # storage type per value
    backward: frozenset[int]  # dots of the backward pass
    weights: frozenset[int]  # parameters among the arguments of main
    sums: frozenset[int]  # gradients among the results of main
    of_weights: frozenset[int]  # kernels of main that depend only on parameters
    shareable: frozenset[int]  # values of a pipeline task (see `shareable_values`)


@cache_with_program(220)
def _build_fixed(
    program: Program,
    *,
    recomputes: bool,
    copies_transposed: bool,
    narrows: bool,
    copies_to_host_late: bool,
    fuses: bool,
    sums_in_products: bool,
    widens: bool,
) -> _Fixed:
    """Compute layout-independent facts; `recomputes`: elementwise operations are fused into each reader (XLA:TPU); `widens`: products
    convert operands of few bits."""
    structure = structure_of(program)
    narrowed = narrowed_values(structure) if narrows else frozenset[int]()
    dtypes = tuple(NARROW if number in narrowed else value.dtype for number, value in enumerate(structure.values))
    if fuses:
        kernels = kernels_of(structure, dtypes, recomputes=recomputes, widens=widens)
    else:
        kernels = eager_kernels_of(program, structure, dtypes, sums_in_products=sums_in_products, widens=widens)
    numbers: dict[tuple[tuple[int, ...], str], int] = {}
    types = tuple(numbers.setdefault((value.shape, dtype), len(numbers)) for value, dtype in zip(structure.values, dtypes, strict=True))
    held = held_until_fetched(structure) if copies_to_host_late else {}
    lifetimes = lifetimes_of(program, structure, kernels, held, recomputes=recomputes, copies_transposed=copies_transposed, fuses=fuses)
    backward = frozenset(dot.op for dot in kernels.dots if program.operations[dot.op].path.startswith("grad/"))
    arguments = zip(structure.arguments, program.arguments, strict=True)
    weights = frozenset(value for value, tensor in arguments if tensor.role is Role.PARAMETER)
    results = zip(returned_values(structure, 0), program.results, strict=True)
    sums = frozenset(value for value, tensor in results if tensor.role is Role.GRADIENT)
    of_weights, shareable = kernels_of_weights(kernels, weights), shareable_values(program, structure)
    return _Fixed(lifetimes, kernels, regions_of(structure, kernels), types, dtypes, backward, weights, sums, of_weights, shareable)


def _local_bytes(plan: Plan, partitioned: Propagated, fixed: _Fixed, tile: tuple[int, ...], *, widens: bool) -> tuple[list[int], list[int]]:
    """Return each value's bytes on one device, plain and in tiles; 0 if dead. `widens`: two-byte floats take four."""
    cached: dict[tuple[int, int, bool], tuple[int, int]] = {}
    sizes = []
    for number, stored, dims, value in zip(fixed.types, fixed.dtypes, partitioned.dims, partitioned.structure.values, strict=True):
        wide = widens and value.maker >= 0
        key = number, id(dims), wide  # equal placements are mostly one object; hashing them is slow
        if key not in cached:
            shape = () if dims is None else local_shape(value.shape, dims, plan.mesh)
            dtype = "float32" if wide and stored in TWO_BYTE_FLOATS else stored
            cached[key] = (0, 0) if dims is None else (tiled_bytes(shape, dtype), tiled_bytes(shape, dtype, tile))
        sizes.append(cached[key])
    return [plain for plain, _ in sizes], [padded for _, padded in sizes]


# Offloading to host memory.


class HostMemory(NamedTuple):
    """Bytes of one device on the host, `moved` to or from it per step, and `waited` for."""

    bytes: int
    moved: int
    waited: int


def host_memory(program: Program, partitioned: Propagated, local_bytes: Sequence[int]) -> HostMemory:
    """Return the bytes on the host after the forward pass, when most are there; streamed updates are waited for."""
    structure = partitioned.structure
    host_bytes = sum(
        local_bytes[index]
        for index, value in enumerate(structure.values)
        if value.on_host and value.region == 0 and (value.maker < 0 or _is_new_on_host(structure, value))
    )
    moves = [(number, op) for number, op in enumerate(structure.ops) if op.placement and not _stays_on_host(structure, op)]
    moved = {number: local_bytes[op.results[0]] * structure.regions[op.region].runs_per_step for number, op in moves}
    waited = sum(count for number, count in moved.items() if STREAMED in program.operations[number].path)
    return HostMemory(host_bytes, sum(moved.values()), waited)


def held_until_fetched(structure: Structure) -> dict[int, int]:
    """Return values copied to the host outside loops, with the position of the last fetch."""
    held: dict[int, int] = {}
    for op in structure.ops:
        if "device" in op.placement and op.region == 0:
            source = _copied_value(structure, op.operands[0])
            held[source] = max(held.get(source, -1), op.position)
    return held


def _copied_value(structure: Structure, value: int) -> int:
    """Return the device value that a host value is a copy of, or the value itself."""
    while structure.values[value].on_host and (maker := structure.values[value].maker) >= 0:
        op = structure.ops[maker]
        if maker in structure.body_of:
            return value
        value = op.operands[structure.values[value].result if len(op.operands) == len(op.results) else 0]
    return value


def _stays_on_host(structure: Structure, op: Op) -> bool:
    return "host" in op.placement and structure.values[op.operands[0]].on_host


def _is_new_on_host(structure: Structure, value: TracedValue) -> bool:
    """Return whether a host value is a new copy or a loop's stack of copies, not one that is only read."""
    op = structure.ops[value.maker]
    if value.maker not in structure.body_of:
        return bool(op.placement) and not _stays_on_host(structure, op)
    body = structure.body_of[value.maker]
    argument = next(
        item
        for item in structure.regions[body].values
        if structure.values[item].maker < 0 and structure.values[item].result == value.result
    )
    returned = next(item for item in reversed(structure.ops) if item.region == body).operands
    start = structure.values[op.operands[value.result]].maker
    was_on_host = start >= 0 and bool(structure.ops[start].placement) and _stays_on_host(structure, structure.ops[start])
    return returned[value.result] != argument and not was_on_host


def with_transfers(time: StepTime, host: HostMemory, chip: Chip) -> StepTime:
    """Add host transfers, which XLA overlaps: exposed is the time beyond the rest of the step, and streamed updates."""
    streamed, others = host.waited / chip.host_bandwidth, (host.moved - host.waited) / chip.host_bandwidth
    waited = streamed + max(0.0, others - time.total)
    share = time.total / (time.total + waited) if waited else 1.0
    exposed, hidden = time.exposed + waited, time.hidden + streamed + others - waited
    return replace(time, exposed=exposed, hidden=hidden, mfu=time.mfu * share, hfu=time.hfu * share)
