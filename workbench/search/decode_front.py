"""Latency against throughput of decoding: a step for each batch and slice of hardware, on the best mesh of the plan's
axes.

A larger batch reads the weights once for more sequences but reads more caches, so a token takes longer and a chip makes
more tokens; more chips share the reads and communicate more. The useful trade-offs form a front (Austin et al. 2025,
"How to Scale Your Model", chapters 7 and 8).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from workbench.analysis.analyze import analyze
from workbench.core.mesh import Mesh
from workbench.core.program import Program, decoded_sequences
from workbench.errors import SearchError, WorkbenchError
from workbench.hardware.catalogue import read_hardware
from workbench.hardware.hardware import Hardware
from workbench.models.registry import build
from workbench.plan.plan import Plan
from workbench.reports.latency_front import DecodePoint, ImpossibleDecode, LatencyFront
from workbench.units import divisors, read_whole_number

MakeProgram = Callable[[int], Program]


def latency_front(
    plan: Plan, batches: Sequence[int], hardware: Sequence[str | Hardware] = (), *, make: MakeProgram | None = None
) -> LatencyFront:
    """Latency and throughput of a decode plan, for each of `batches` on each of `hardware` (default: the plan's own).

    Tries every mesh over the plan's axes on each slice. Zoo models are rebuilt for each batch; other programs need
    `make(batch)`. Raises `SearchError` for a program that is not a decode step, one that cannot be rebuilt, or empty
    batches or hardware.
    """
    slices = _read_slices(plan, hardware)
    sizes = [read_whole_number("batches", batch, SearchError) for batch in dict.fromkeys(batches)]
    if not sizes:
        raise SearchError("`batches` is empty.", ["pass batch sizes, `batches=[1, 8, 64]`"])
    _verify_decode(plan.program)
    points, impossible = list[DecodePoint](), list[ImpossibleDecode]()
    for batch in sizes:
        program = _program_of(plan, batch, make)
        for machine in slices:
            best = _best_point(plan, program, batch, machine)
            (points if isinstance(best, DecodePoint) else impossible).append(best)  # type: ignore[arg-type]
    ordered = sorted(mark_front(points), key=lambda point: (point.seconds_per_token, point.chips))
    return LatencyFront(plan.name, tuple(ordered), tuple(impossible))


def mark_front(points: Sequence[DecodePoint]) -> list[DecodePoint]:
    """Mark the points that fit and that no other fitting point dominates."""
    fitting = [point for point in points if point.fits]
    return [replace(point, is_on_front=point.fits and not any(other.dominates(point) for other in fitting)) for point in points]


def meshes_of(mesh: Mesh, devices: int) -> Iterator[Mesh]:
    """All meshes with this many devices and the axes of this one, in their order.

    >>> [str(each) for each in meshes_of(Mesh("data:2 model:2"), 4)]
    ['data:1 model:4', 'data:2 model:2', 'data:4 model:1']
    """

    def share(count: int, left: int) -> Iterator[tuple[int, ...]]:
        if count == 1:
            yield (left,)
            return
        for size in divisors(left):
            yield from ((size, *rest) for rest in share(count - 1, left // size))

    for sizes in share(len(mesh.names), devices):
        yield Mesh(zip(mesh.names, sizes, strict=True))


def _read_slices(plan: Plan, hardware: Sequence[str | Hardware]) -> list[Hardware]:
    choices = list(hardware) or ([plan.hardware] if plan.hardware else [])
    if not choices:
        raise SearchError("`hardware` is empty.", ['pass hardware, `hardware=["TPU v5e 2x2", "TPU v5e 4x4"]`'])
    if not plan.mesh.names:
        raise SearchError(f"The mesh of {plan.name} has no axes.", ['give the plan a mesh, `mesh="data:1 model:8"`'])
    slices = [choice if isinstance(choice, Hardware) else read_hardware(choice) for choice in choices]
    return [choice for choice in slices if choice is not None]


def _verify_decode(program: Program) -> None:
    """Raise `SearchError` unless the program carries a cache and takes one token per sequence."""
    if not decoded_sequences(program):
        raise SearchError(
            f"`{program.name}` is not a decode step: a decode step carries a cache and takes one token of each of its `batch` sequences.",
            ["plan `decoder_decode` or `mixture_decode` of the zoo", "trace your own step with `wb.trace_inference`"],
        )


def _program_of(plan: Plan, batch: int, make: MakeProgram | None) -> Program:
    """The plan's program for another batch. Raises `SearchError` if it cannot be rebuilt."""
    program = plan.program
    if make is not None:
        return make(batch)
    if program.dims["batch"] == (batch,):
        return program
    if program.reference is None or ":" in program.reference.target:
        raise SearchError(
            f"`{program.name}` is not a model of the zoo, so it cannot be rebuilt for a batch of {batch}.",
            ["pass `make`, a function from a batch size to a program"],
        )
    built = build(program.reference.target, **{**program.reference.arguments, "batch": batch})
    renamed = {traced: now for traced, now in program.renamed.items() if traced != now}
    return built.rename(renamed) if renamed else built


def _best_point(plan: Plan, program: Program, batch: int, hardware: Hardware) -> DecodePoint | ImpossibleDecode:
    """The fastest mesh that fits; else the one with the least memory; else the reason why none is legal."""
    points, why = list[DecodePoint](), ""
    for mesh in meshes_of(plan.mesh, hardware.size):
        try:
            points.append(_plan_point(Plan(program, mesh, plan.layout, hardware=hardware), batch, hardware))
        except WorkbenchError as error:
            why = error.message
    if not points:
        return ImpossibleDecode(batch, str(hardware), why)
    return min(points, key=lambda point: (not point.fits, point.seconds_per_token if point.fits else point.peak))


def _plan_point(plan: Plan, batch: int, hardware: Hardware) -> DecodePoint:
    report = analyze(plan)
    assert report.step_time is not None  # the plan has hardware
    chip = hardware.chip
    return DecodePoint(
        batch=batch,
        hardware=str(hardware),
        chips=max(hardware.size // chip.chip_devices, 1),
        mesh=str(plan.mesh),
        step_seconds=report.step_time.total,
        bandwidth_seconds=report.traffic / chip.memory_bandwidth,
        peak=report.memory.peak,
        capacity=report.memory.capacity,
    )
