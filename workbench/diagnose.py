"""What to mind in a plan: data in the report, each with its arithmetic and edits that would mend it."""

from collections import Counter
from dataclasses import replace

from workbench.edits import PlaceDim, SetRemat, SetWiring
from workbench.legality import why_illegal
from workbench.partition import Partitioned
from workbench.remat import Remat
from workbench.report import Diagnostic, Report
from workbench.sharding import base_axis
from workbench.tensor import Role
from workbench.topology import wiring_problem
from workbench.units import format_bytes

_LARGEST = 3  # things named in a message


def diagnose(report: Report, partitioned: Partitioned) -> Report:
    """The report with its diagnostics."""
    found = (
        *_hardware_misfit(report),
        *_too_much_memory(report, partitioned),
        *_duplicated_work(report),
        *_unused_axes(report, partitioned),
        *_unknown_loops(report, partitioned),
        *_branches(report, partitioned),
        *_shifts(report, partitioned),
        *_manual_regions(report, partitioned),
    )
    return replace(report, diagnostics=found)


def _hardware_misfit(report: Report) -> list[Diagnostic]:
    """The mesh is larger than the hardware, or the wiring is not one of it; times are as if it were not so."""
    plan = report.plan
    if plan.hardware is None or not (problem := wiring_problem(plan.mesh, plan.hardware, plan.wiring)):
        return []
    fits_by_itself = plan.wiring is not None and wiring_problem(plan.mesh, plan.hardware) is None
    ways_out = "".join(f" Way out: {each}." for each in problem.ways_out[:1])
    return [Diagnostic("hardware too small", "mesh", problem.message + ways_out, (SetWiring(None),) if fits_by_itself else ())]


def _too_much_memory(report: Report, partitioned: Partitioned) -> list[Diagnostic]:
    """What one device would hold at the peak, against what it has; edits that hold less, the most telling first."""
    memory = report.memory
    if memory.fits:
        return []
    roles = " + ".join(f"{role} {format_bytes(count)}" for role, count in memory.by_role.items())
    largest = ", ".join(f"{each.path} {format_bytes(each.bytes)}" for each in report.alive[:_LARGEST])
    message = (
        f"One device would hold {format_bytes(memory.peak)} at the peak ({roles}) and has {format_bytes(memory.capacity)}: "
        f"{memory.peak / memory.capacity:.2f} times as much. The largest then: {largest}."
    )
    return [Diagnostic("does not fit", "memory", message, (*_remats(report, partitioned), *_splits(report)))]


def _remats(report: Report, partitioned: Partitioned) -> tuple[SetRemat, ...]:
    """Keep less for the backward pass, if activations are what there is most of and scanned layers are there to be traced so."""
    program, by_role = report.plan.program, report.memory.by_role
    most = max(by_role, key=lambda role: by_role[role])
    has_layers = bool(program.carried and partitioned.structure.body_of)
    can = program.retrace is not None and has_layers and most is Role.ACTIVATION and program.remat.policy != "full"
    return (SetRemat(Remat("full")),) if can else ()


def _splits(report: Report) -> tuple[PlaceDim, ...]:
    """Split the largest dimensions that lie whole, over the largest axis where that is legal."""
    axes = sorted((name for name, size in report.mesh.axes if size > 1), key=lambda name: -report.mesh[name])
    found: dict[str, PlaceDim] = {}
    for axis in axes:
        for edit in _suggestions(report, axis) if len(found) < _LARGEST - 1 else ():
            found.setdefault(edit.dim, edit)
    return tuple(found.values())[:_LARGEST]


def _unused_axes(report: Report, partitioned: Partitioned) -> list[Diagnostic]:
    used = {base_axis(axis) for dims in set(partitioned.dims) for axes in dims or () for axis in axes}
    peak = format_bytes(report.memory.peak)
    return [
        Diagnostic(
            "unused axis",
            name,
            f"Mesh axis `{name}` ({size}) splits nothing: its {size} groups of devices hold the same {peak}.",
            _suggestions(report, name),
        )
        for name, size in report.mesh.axes
        if size > 1 and name not in used
    ]


def _duplicated_work(report: Report) -> list[Diagnostic]:
    factor = report.flops.duplication
    if factor < 1.01:
        return []
    return [
        Diagnostic(
            "duplicated work",
            "flops",
            f"The devices together compute {factor:.2f} times what the program needs: "
            f"{report.flops.per_device:,} x {report.flops.devices} / {report.flops.unique:,}.",
        )
    ]


def _unknown_loops(report: Report, partitioned: Partitioned) -> list[Diagnostic]:
    return [
        Diagnostic(
            "unknown trip count",
            _subject(report, index),
            "The number of turns of this loop depends on data; what happens in it is counted once.",
        )
        for index in partitioned.structure.control_flow
        if not partitioned.structure.ops[index].trips_known
    ]


def _branches(report: Report, partitioned: Partitioned) -> list[Diagnostic]:
    counts = Counter(region.parent for region in partitioned.structure.regions)
    return [
        Diagnostic("branches", _subject(report, index), f"One of its {counts[index]} branches runs in a step; all of them are counted.")
        for index in partitioned.structure.control_flow
        if partitioned.structure.ops[index].kind in ("stablehlo.case", "stablehlo.if")
    ]


def _shifts(report: Report, partitioned: Partitioned) -> list[Diagnostic]:
    """Operations that read across the cut of a sharded dimension, a kind at a time."""
    found: dict[str, list[int]] = {}
    for index in partitioned.structure.shifting:
        op = partitioned.structure.ops[index]
        if any(_is_sharded(partitioned, value, op.shifted) for value in (op.operands[0], op.results[0])):
            found.setdefault(report.plan.program.operations[index].kind, []).append(index)
    return [
        Diagnostic(
            "not counted",
            _subject(report, indices[0]),
            f"`{kind}` moves data along a sharded dimension, in {len(indices)} {'place' if len(indices) == 1 else 'places'}. Shardy leaves "
            "that to XLA, which sends borders to neighbours or gathers the dimension; it is not counted here.",
        )
        for kind, indices in found.items()
    ]


def _is_sharded(partitioned: Partitioned, value: int, dims: tuple[int, ...]) -> bool:
    lies = partitioned.dims[value]
    return lies is not None and any(lies[dim] for dim in dims if dim < len(lies))


def _subject(report: Report, index: int) -> str:
    operation = report.plan.program.operations[index]
    return operation.path or operation.source or operation.kind


def _manual_regions(report: Report, partitioned: Partitioned) -> list[Diagnostic]:
    return [
        Diagnostic("shard_map", each.path, "What it sends by itself is not counted; what brings values in and out is.")
        for each in (report.plan.program.operations[index] for index in partitioned.structure.control_flow)
        if each.kind == "manual_computation"
    ]


def _suggestions(report: Report, axis: str) -> tuple[PlaceDim, ...]:
    """The largest dimensions that may go there."""
    plan = report.plan
    free = sorted((dim for dim in plan.program.dims if not plan.layout.rule(dim)), key=lambda dim: -max(plan.program.dims[dim]))
    legal = (dim for dim in free if why_illegal(plan.program, plan.mesh, plan.layout, dim, (axis,)) is None)
    return tuple(PlaceDim(dim, (axis,)) for dim, _ in zip(legal, range(2), strict=False))
