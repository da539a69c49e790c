"""Diagnose problems of a plan, each with its arithmetic and edits that would fix it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from workbench.analysis.diagnose_operators import diagnose_feature_groups, diagnose_operators_of, diagnose_overlapping_pools, subject_of
from workbench.analysis.diagnose_resharding import diagnose_rematerialisations, diagnose_resharding, source_text
from workbench.analysis.memory_remedies import largest_dims, memory_remedies
from workbench.analysis.remedies import fix_padding, fix_split_reshape
from workbench.core.offload import STREAMED, Offload
from workbench.core.path_patterns import matches, operations_at, stated_trip_count
from workbench.core.program import Operation
from workbench.core.remat import OFFLOAD_DOTS, Remat
from workbench.core.sharding import Sharding, base_axis
from workbench.core.tensor import Role
from workbench.hardware.axis_placement import axis_assignment_error
from workbench.hardware.hardware import Chip
from workbench.plan.edits import SetAxisAssignment, SetHardware, SetOffload, SetRemat
from workbench.propagation import Propagated, padding_list
from workbench.propagation.module.operation_kinds import BRANCHING
from workbench.propagation.reshard_edges import Edge
from workbench.reports.device_memory import Memory
from workbench.reports.diagnostic import DOES_NOT_FIT, UNKNOWN_TRIP_COUNT, Diagnostic
from workbench.reports.padding import Padding
from workbench.reports.report import Report
from workbench.units import format_bytes, format_seconds

_MOST_NAMED = 3  # items listed in a message
_MIN_HOST_SHARE = 0.1  # of the step time
_MIN_PADDING_SHARE = 0.1  # of a value's bytes


def diagnose(report: Report, partitioned: Propagated, edges: Sequence[Edge]) -> Report:
    """Return the report with diagnostics; edits are judged under `partitioned`, Shardy's propagation."""
    diagnostics = (
        *_diagnose_hardware(report),
        *_diagnose_memory(report, partitioned),
        *_diagnose_host_memory(report),
        *_diagnose_host(report),
        *diagnose_rematerialisations(report, partitioned, edges),
        *diagnose_resharding(report, partitioned, edges),
        *_diagnose_split_reshapes(report, partitioned),
        *_diagnose_padding(report, partitioned),
        *_diagnose_duplicated_work(report),
        *_diagnose_unused_axes(report, partitioned),
        *_diagnose_unknown_loops(report, partitioned),
        *_diagnose_branches(report, partitioned),
        *diagnose_operators_of(report, partitioned),
        *diagnose_feature_groups(report, partitioned),
        *diagnose_overlapping_pools(report, partitioned),
        *_diagnose_constraint_ranks(report),
        *_diagnose_override_ranks(report),
    )
    return replace(report, diagnostics=diagnostics)


def _diagnose_hardware(report: Report) -> list[Diagnostic]:
    """Report a mesh larger than the hardware or an unsuitable axis assignment; times are computed without it."""
    plan = report.plan
    if plan.hardware is None or not (problem := axis_assignment_error(plan.mesh, plan.hardware, plan.axis_assignment)):
        return []
    fits_by_itself = plan.axis_assignment is not None and axis_assignment_error(plan.mesh, plan.hardware) is None
    ways_out = "".join(f" Try: {suggestion}." for suggestion in problem.ways_out[:1])
    return [Diagnostic("hardware too small", "mesh", problem.message + ways_out, (SetAxisAssignment(None),) if fits_by_itself else ())]


def _diagnose_memory(report: Report, partitioned: Propagated) -> list[Diagnostic]:
    memory = report.memory
    if memory.fits:
        return []
    largest = ", ".join(f"{value.path} {format_bytes(value.bytes)}" for value in report.alive[:_MOST_NAMED])
    message = f"One device would hold {over_capacity_text(memory, 'at the peak')} Largest tensors: {largest}."
    return [Diagnostic(DOES_NOT_FIT, "memory", message, find=partial(memory_remedies, report, partitioned))]


def _diagnose_host_memory(report: Report) -> list[Diagnostic]:
    host, hardware = report.memory.host, report.hardware
    if hardware is None or not 0 < hardware.chip.host_memory < host:
        return []
    program = report.plan.program
    edits: tuple[SetOffload | SetRemat, ...] = (SetOffload(Offload()),) if program.on_host else ()
    edits += (SetRemat(Remat("dots_no_batch")),) if program.remat.policy == OFFLOAD_DOTS else ()
    return [Diagnostic("host memory too small", "memory", over_host_memory_text(host, hardware.chip), edits if program.retrace else ())]


def over_host_memory_text(host: int, chip: Chip) -> str:
    """Describe by how much a device's share of host memory is exceeded."""
    room = chip.host_memory
    return (
        f"One device would keep {format_bytes(host)} in host memory; its share of the {chip.name} host is "
        f"{format_bytes(room)}: {host / room:.2f} times as much."
    )


def _diagnose_host(report: Report) -> list[Diagnostic]:
    step, hardware = report.step_time, report.hardware
    if step is None or hardware is None or report.plan.pipeline is not None or step.host <= _MIN_HOST_SHARE * step.total:
        return []
    kernels, collectives = (sum(item.count for item in items) for items in (report.kernel_costs, report.collectives))
    runtime = hardware.runtime
    message = (
        f"A device waits {format_seconds(step.host)} of {format_seconds(step.total)} for the host, which launches {kernels:,} kernels at "
        f"{format_seconds(runtime.dispatch)} and {collectives:,} collectives at {format_seconds(runtime.collective_dispatch)}. Larger "
        "micro-batches, or fewer devices, give each launch more work."
    )
    return [Diagnostic("bound by the host", "runtime", message, (SetHardware(hardware.with_runtime("CUDA graphs")),))]


def over_capacity_text(memory: Memory, when: str) -> str:
    """Describe by how much device memory is exceeded, by role; continues `One device would hold`."""
    roles = " + ".join(f"{role} {format_bytes(count)}" for role, count in memory.by_role.items())
    room, share = format_bytes(memory.capacity), memory.peak / memory.capacity
    return f"{format_bytes(memory.peak)} {when} ({roles}) and has {room}: {share:.2f} times as much."


def _diagnose_split_reshapes(report: Report, partitioned: Propagated) -> list[Diagnostic]:
    """Report reshapes whose major part takes the axis of the whole: micro-batches get the batch's axis first."""
    diagnostics = []
    for number in partitioned.structure.reshapes:
        operation, op = report.plan.program.operations[number], partitioned.structure.ops[number]
        dims = partitioned.dims[op.results[0]]
        if not dims or not any(":" in axis for dim in dims for axis in dim):  # no axis was split into sub-axes
            continue
        operand_dims = partitioned.dims[op.operands[0]]
        lost_axes = {base_axis(axis) for dim in dims or () for axis in dim} - {axis for dim in dims or () for axis in dim}
        lost_axes &= {axis for dim in operand_dims or () for axis in dim}
        if lost_axes and operation.path:
            note = (
                f"`{operation.path}`{source_text(operation.source)} splits a dimension sharded over `{'+'.join(sorted(lost_axes))}` into "
                "several, and "
                f"the major one takes the axis first: the result is sharded {Sharding(dims or ())}. A loop over the major "
                "one gathers it in every iteration. Try: reshape so that the dimension that stays sharded comes first, then swap them."
            )
            diagnostics.append(
                Diagnostic(
                    "split reshape", operation.path, note, find=partial(fix_split_reshape, report.plan, operation, dims or (), lost_axes)
                )
            )
    return diagnostics[:_MOST_NAMED]


def _diagnose_padding(report: Report, partitioned: Propagated) -> list[Diagnostic]:
    groups: dict[tuple[str, tuple[str, ...]], list[Padding]] = {}
    for padding in padding_list(report.plan, partitioned):
        groups.setdefault((padding.dim, padding.axes), []).append(padding)
    return [
        Diagnostic(
            "padding",
            dim if dim != "_" else group[0].path,
            f"{group[0].arithmetic}. {len(group)} kind{'s' * (len(group) != 1)} of values are padded, the largest `{group[0].path}`"
            f"{source_text(group[0].source)}: {group[0].share:.0%} of its {format_bytes(group[0].bytes)} on each device are padding. "
            f"Sizes nearby: {group[0].way_out}.",
            find=partial(fix_padding, report.plan, group[0]),
        )
        for (dim, _), group in groups.items()
        if any(padding.share > _MIN_PADDING_SHARE for padding in group)
    ][:_MOST_NAMED]


def _diagnose_unused_axes(report: Report, partitioned: Propagated) -> list[Diagnostic]:
    used = {base_axis(axis) for dims in set(partitioned.dims) for axes in dims or () for axis in axes}
    peak = format_bytes(report.memory.peak)
    return [
        Diagnostic(
            "unused axis",
            name,
            f"Mesh axis `{name}` ({size}) is unused: its {size} groups of devices hold the same {peak}.",
            largest_dims(report, name),
        )
        for name, size in report.mesh.axes
        if size > 1 and name not in used and not _carries_stages(report, name)
    ]


def _diagnose_duplicated_work(report: Report) -> list[Diagnostic]:
    stages = report.plan.pipeline.stages if report.plan.pipeline else 1  # stages share the program
    factor = report.flops.duplication / stages
    if factor < 1.01:
        return []
    return [
        Diagnostic(
            "duplicated work",
            "flops",
            f"The devices together compute {factor:.2f} times the arithmetic of the program: "
            f"{report.flops.per_device:,} x {report.flops.devices // stages} / {report.flops.unique:,}.",
        )
    ]


def _carries_stages(report: Report, axis: str) -> bool:
    """Return whether pipeline stages are placed along an axis, which then shards no tensor."""
    return report.plan.pipeline is not None and report.plan.pipeline.axis == axis


def _diagnose_unknown_loops(report: Report, partitioned: Propagated) -> list[Diagnostic]:
    structure, operations = partitioned.structure, report.plan.program.operations
    loops = [(operations[index].path, operations[index].source) for index in structure.body_of if not structure.ops[index].trips_known]
    useless = [stated for stated in report.plan.layout.turns if not any(stated_trip_count([stated], *loop) for loop in loops)]
    return [
        Diagnostic("known trip count", loop, f"`turns[{loop}]={count}` changes nothing: the function itself says how often this loop runs.")
        for loop, count in useless
    ] + [
        Diagnostic(UNKNOWN_TRIP_COUNT, subject_of(report.plan.program, index), _trip_count_text(operations[index]))
        for index in structure.control_flow
        if not (op := structure.ops[index]).trips_known and op.trips_stated is None and STREAMED not in operations[index].path
    ]


def _trip_count_text(loop: Operation) -> str:
    name = loop.source if loop.source and not loop.path.startswith("grad/") else f"{loop.path}/while".lstrip("/")
    return (
        "The number of iterations of this loop depends on data; its body is counted once, here and wherever XLA's own program is read. "
        f"Try: state how often it runs, `turns[{name}]=8` in the layout."
    )


def _diagnose_branches(report: Report, partitioned: Propagated) -> list[Diagnostic]:
    counts = Counter(region.parent for region in partitioned.structure.regions)
    return [
        Diagnostic(
            "branches", subject_of(report.plan.program, index), f"One of its {counts[index]} branches runs per step; all are counted."
        )
        for index in partitioned.structure.control_flow
        if partitioned.structure.ops[index].kind in BRANCHING
    ]


def _diagnose_constraint_ranks(report: Report) -> list[Diagnostic]:
    """Report constraints that also match values of another rank; the backward pass is not reported."""
    program, diagnostics = report.plan.program, []
    for pattern, sharding in report.plan.layout.constraints:
        rank = len(sharding.dims)
        matched = [op for op in (program.operations[i] for i in operations_at(program, pattern)) if not op.path.startswith("grad/")]
        of_other_rank = [value for value in matched if len(value.shape) != rank]
        if not of_other_rank:
            continue
        lines = list(dict.fromkeys(value.source or value.path for value in of_other_rank))
        more = f" and {len(lines) - _MOST_NAMED} more" if len(lines) > _MOST_NAMED else ""
        intended = next((value for value in matched if len(value.shape) == rank), of_other_rank[0])
        message = (
            f"{len(of_other_rank)} of the {len(matched)} values that `{pattern}` matches in the forward pass do not "
            f"have the {rank} dimensions of "
            f"`@{pattern}={sharding}`, which does not apply to them (at {', '.join(lines[:_MOST_NAMED])}{more})."
        )
        by_line = f" To select one, name its line: `@{intended.source}/{intended.path.split('/')[-1]}=...`." if intended.source else ""
        diagnostics.append(Diagnostic("named besides", pattern, message + by_line))
    return diagnostics


def _diagnose_override_ranks(report: Report) -> list[Diagnostic]:
    """Report overrides of optimizer state only that also match another rank; with a parameter, this is expected."""
    layout, diagnostics = report.plan.layout, []
    for pattern, sharding in layout.overrides:
        rank = len(sharding.dims)
        matched = [tensor for tensor in report.plan.program.arguments if matches(pattern, tensor.path)]
        if any(tensor.role is not Role.OPTIMIZER_STATE for tensor in matched):
            continue
        unmatched = [state for state in matched if len(state.shape) != rank and state.elements > 1 and layout.override_of(state) is None]
        if not unmatched:
            continue
        listed = ", ".join(f"`{state.path}` of rank {len(state.shape)}" for state in unmatched[:_MOST_NAMED])
        more = f" and {len(unmatched) - _MOST_NAMED} more" if len(unmatched) > _MOST_NAMED else ""
        message = (
            f"{len(unmatched)} of the {len(matched)} tensors that `{pattern}` names are not of rank {rank}, so `{pattern}={sharding}` "
            f"does not apply to them: {listed}{more}. Try: one statement per rank, with a pattern that matches only those tensors."
        )
        diagnostics.append(Diagnostic("named besides", pattern, message))
    return diagnostics
