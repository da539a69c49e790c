"""Edits for gestures on the stage board. Each change is tried first, so an invalid partition is refused without loss."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod

from workbench.core.mesh import Mesh
from workbench.core.path_patterns import template
from workbench.core.pipeline_spec import MAX_COUNT, PipelineSpec, first_stages, fit_remat, micro_batch_counts
from workbench.core.schedules import schedule_named
from workbench.errors import PipelineError, WorkbenchError, unknown_name
from workbench.pipeline.balance import apply_edit, balance, bucket_rule, network_blocks, verify_enough_blocks, verify_partition
from workbench.pipeline.staged_program import spec_of
from workbench.plan.edits import Edit, EditGroup, SetPipeline
from workbench.plan.mesh_edits import ResizeAxis, SetMesh
from workbench.plan.plan import Plan
from workbench.plan.stage_axis import STAGE_AXES
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.units import divisors
from workbench.widgets.gestures import setup_gestures as gestures
from workbench.widgets.gestures.gesture import EditMaker, Kind, edits_of, means
from workbench.widgets.gestures.view_gestures import TryBoundaryGesture

# A first pipeline: as many stages as divide the layers and fit the devices, 1F1B, four micro-batches per stage.


MOST_STAGES = 8  # stages to begin with; the user may ask for more
MOST_OF_AN_AXIS = 4  # stages when part of a used axis becomes the stage axis
NEW_AXIS_STAGES = 4  # stages when the number of devices is unknown
PER_STAGE = 4  # micro-batches per stage: with four the bubble is at most a fifth


@dataclass(frozen=True, slots=True)
class PipelineStart:
    """A proposed pipeline edit, the source of its devices in words, and the mesh that identifies it among several."""

    edit: Edit
    spec: PipelineSpec
    about: str
    mesh: str = ""  # identifies one of several proposals


def propose_pipeline(plan: Plan, mesh: str = "") -> PipelineStart:
    """Return the proposed pipeline, or the one of several with this mesh; raises `PipelineError`."""
    starts = list_starts(plan)
    chosen = [start for start in starts if start.mesh == mesh or len(starts) == 1]
    if not chosen:
        raise PipelineError(shortage_text(plan), [f"{start.spec.stages} stages {start.about}" for start in starts])
    return chosen[0]


def list_starts(plan: Plan) -> tuple[PipelineStart, ...]:
    """List pipelines to start with, several if the user must choose.

    That is if the hardware has no spare devices and no axis divides into equal stages. Raises `PipelineError` if the
    program cannot be partitioned.
    """
    paths = [block.path for block in network_blocks(plan.program, 1)]
    if len(paths) < 2:
        raise PipelineError(
            f"{plan.program.name} has {len(paths)} block; a pipeline needs two.", ["add named scopes to its layers to get more blocks"]
        )
    layers = max(Counter(map(template, paths)).values())
    start = _on_idle_axis(plan, len(paths)) or _on_spare_devices(plan, layers) or _on_part_of_axis(plan, layers)
    if start is not None:
        return (start,)
    new = _new_axis(plan, layers)
    is_scarce = plan.hardware is not None and new.spec.stages * plan.mesh.size > plan.hardware.size
    return (*_with_uneven_stages(plan, len(paths)), new) if is_scarce else (new,)


def shortage_text(plan: Plan) -> str:
    have = plan.hardware.size if plan.hardware else 0
    return (
        f"The mesh takes {plan.mesh.size} of the {have} devices of {plan.hardware}; no number of stages with equal layers fits. Choose one."
    )


def micro_batches_for(plan: Plan, stages: int) -> int:
    """Return the most micro-batches, up to four per stage, that divide the batch and, if possible, suit its sharding."""
    counts = [count for count in micro_batch_counts(plan.program) if count <= PER_STAGE * stages]
    batch = max(micro_batch_counts(plan.program))
    batch_parts = prod(plan.mesh[axis] for axis in plan.layout.rule("batch"))
    return max((count for count in counts if batch // count % batch_parts == 0), default=counts[-1])


def _try_start(plan: Plan, axis: str, stages: int, about: str, *first: Edit) -> PipelineStart | None:
    spec = PipelineSpec(stages, 1, axis=axis)
    try:
        for edit in first:
            plan = apply_edit(plan, edit)
        spec = PipelineSpec(stages, micro_batches_for(plan, stages), axis=axis)
        edits = (*first, SetPipeline(spec, f"pipeline of {stages} stages"))
        plan = apply_edit(plan, edits[-1])
    except WorkbenchError:
        return None
    return PipelineStart(EditGroup(f"pipeline of {stages} stages", edits) if first else edits[-1], spec, about, str(plan.mesh))


def _on_idle_axis(plan: Plan, blocks: int) -> PipelineStart | None:
    """Propose a pipeline on a mesh axis that shards nothing, preferably one named after stages."""
    for axis, size in sorted(plan.mesh.axes, key=lambda axis: axis[0] not in STAGE_AXES):
        if 1 < size <= blocks and (start := _try_start(plan, axis, size, f"on mesh axis `{axis}`, which shards nothing now")):
            return start
    return None


def _on_spare_devices(plan: Plan, layers: int) -> PipelineStart | None:
    spare = plan.hardware.size // plan.mesh.size if plan.hardware else 1
    stages = _largest(layers, spare)
    return (
        _try_start(plan, _new_name(plan), stages, f"on a new mesh axis, over devices of {plan.hardware} that are idle now")
        if stages > 1
        else None
    )


def _on_part_of_axis(plan: Plan, layers: int) -> PipelineStart | None:
    """Propose a pipeline on part of the longest axis, with the same number of devices."""
    if not plan.mesh.axes:
        return None
    axis, size = max(plan.mesh.axes, key=lambda axis: axis[1])
    stages = _largest(layers, size, MOST_OF_AN_AXIS)
    if stages < 2:
        return None
    about = f"on the same {plan.mesh.size} devices: `{axis}` goes from {size} to {size // stages}"
    return _try_start(plan, _new_name(plan), stages, about, ResizeAxis(axis, size // stages))


def _with_uneven_stages(plan: Plan, blocks: int) -> Iterator[PipelineStart]:
    """Propose the smallest number of stages on part of each axis, with the same number of devices."""
    for axis, size in plan.mesh.axes:
        stages = next((count for count in divisors(size) if 1 < count <= blocks), 0)
        about = f"on the same {plan.mesh.size} devices: `{axis}` goes from {size} to {size // max(stages, 1)}"
        start = _try_start(plan, _new_name(plan), stages, about, ResizeAxis(axis, size // stages)) if stages else None
        if start is not None:
            yield start


def _new_axis(plan: Plan, layers: int) -> PipelineStart:
    stages, axis = max(_largest(layers, NEW_AXIS_STAGES), 2), _new_name(plan)
    needed = stages * plan.mesh.size
    about = f"on a new mesh axis: {stages} × {plan.mesh.size} = {needed} devices"
    mesh_edits: tuple[Edit, ...] = ()  # an axis set by the user is not rejected for lack of devices
    if plan.hardware is not None and needed > plan.hardware.size:
        mesh_edits = (SetMesh(Mesh(((axis, stages), *plan.mesh.axes))),)
        about += f", and {plan.hardware} has {plan.hardware.size}"
    start = _try_start(plan, axis, stages, about, *mesh_edits)
    if start is None:
        raise PipelineError(f"No pipeline fits {plan.mesh}.", ["add an empty mesh axis for its stages"])
    return start


def _largest(layers: int, devices: int, most: int = MOST_STAGES) -> int:
    return next((count for count in range(most, 1, -1) if layers % count == 0 and devices % count == 0), 1)


def _new_name(plan: Plan) -> str:
    return next(name for name in ("stage", "pipe", *(f"stage{i}" for i in range(99))) if name not in plan.mesh)


# The edits.


ZONE = "#pipeline"
"""Zone that shows refusals of these gestures; no mesh axis can have this name."""
Change = tuple[PipelineSpec, str]


def preview_boundary(gesture: TryBoundaryGesture, plan: Plan, report: Report) -> PipelineReport | None:
    """Return the pipeline with a boundary as dragged, without an edit; `None` once it is dropped."""
    if not gesture.value or plan.pipeline is None:
        return None
    planned = require_pipeline(report)
    spec, _ = _boundary(gesture.value, plan, report)
    paths = [block.path for block in planned.blocks]
    return planned.partition_at([paths.index(path) for path in spec.boundaries]) if planned.partition_at else None


def _verify_pipeline(plan: Plan) -> None:
    if plan.pipeline is None:
        raise PipelineError("The plan has no pipeline.", ["make one first"])


def _remove(_gesture: gestures.RemovePipelineGesture, plan: Plan, _report: Report) -> Edit:
    _verify_pipeline(plan)
    return SetPipeline(None, "no pipeline")


def _changes(kind: type[gestures.StageGesture], change: Callable[[str, Plan, Report], Change]) -> tuple[Kind, EditMaker]:
    """Build a table entry that changes the pipeline and partitions it on trial. Raises `WorkbenchError`."""

    def make(gesture: gestures.StageGesture, plan: Plan, report: Report) -> Edit:
        _verify_pipeline(plan)
        spec, about = change(gesture.value, plan, report)
        edit = SetPipeline(spec, about)
        verify_partition(edit.apply(plan).program, spec)
        return edit

    return means(kind, make)


def _parse_count(text: str, what: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text) or not 1 <= int(text) <= MAX_COUNT:
        raise PipelineError(f"`{text[:40]}` is not a number of {what}.", [f"take a whole number from 1 to {MAX_COUNT:,}"])
    return int(text)


def _stages(text: str, plan: Plan, _: Report) -> Change:
    """Change the number of stages, with new boundaries and, for interleaved schedules, matching micro-batches."""
    count, spec = _parse_count(text, "stages"), spec_of(plan)
    paths = [block.path for block in network_blocks(plan.program, spec.micro_batches)]
    verify_enough_blocks(plan.program.name, paths, PipelineSpec(count, 1, "breadth_first", spec.chunks))
    rounds = schedule_named(spec.schedule).whole_rounds and spec.chunks > 1
    micro_batches = micro_batches_for(plan, count) if rounds and spec.micro_batches % count else spec.micro_batches
    remat = fit_remat(spec.remat, count)
    return replace(spec, stages=count, boundaries=(), micro_batches=micro_batches, remat=remat), f"{count} stages"


def _micro_batches(text: str, plan: Plan, _: Report) -> Change:
    count = _parse_count(text, "micro-batches")
    return replace(spec_of(plan), micro_batches=count), f"{count} micro-batches"


def _chunks(text: str, plan: Plan, _: Report) -> Change:
    count = _parse_count(text, "chunks")
    return replace(spec_of(plan), chunks=count, boundaries=()), f"{count} chunks a stage"


def _schedule(name: str, plan: Plan, report: Report) -> Change:
    """Change the schedule; an interleaved one gets two chunks if there are enough blocks, any other its fixed number."""
    spec, schedule = spec_of(plan), schedule_named(name)
    planned = _find_pipeline(report)
    fits = planned is not None and 2 * spec.stages <= len(planned.blocks)
    chunks = schedule.chunks if not schedule.loops else spec.chunks if spec.chunks > 1 else 2 if fits else 1
    boundaries = spec.boundaries if chunks == spec.chunks else ()
    return replace(spec, schedule=name, chunks=chunks, boundaries=boundaries), f"schedule {name}"


def _remat(name: str, plan: Plan, _: Report) -> Change:
    spec = replace(spec_of(plan), remat=name)
    about = f"on {first_stages(spec.recomputing_stages)}" if 0 < spec.recomputing_stages < spec.stages else name.replace("_", " ")
    return spec, f"recompute {about}"


def _axis(name: str, plan: Plan, _: Report) -> Change:
    spec = spec_of(plan)
    stages = dict(plan.mesh.axes).get(name, spec.stages)
    boundaries = spec.boundaries if stages == spec.stages else ()
    remat = fit_remat(spec.remat, stages)
    return replace(spec, axis=name, stages=stages, boundaries=boundaries, remat=remat), f"stages on {name}"


def _boundary(text: str, plan: Plan, report: Report) -> Change:
    """Start a virtual stage at a block, `PIECE PATH`; the other boundaries stay as shown."""
    number, _, path = text.partition(" ")
    planned, spec = require_pipeline(report), spec_of(plan)
    starts = [piece.blocks[0] for piece in planned.virtual_stages[1:]]
    if not number.isdecimal() or len(number) > 6 or not 1 <= int(number) <= len(starts):
        raise PipelineError(f"There is no boundary `{number[:20]}`; the pipeline has {len(starts)}.", ["see the current stages"])
    paths = [block.path for block in planned.blocks]
    if path not in paths:
        raise PipelineError(*unknown_name("block", path, paths))
    piece = int(number)
    starts[piece - 1] = path
    block_indices = [paths.index(start) for start in starts]
    if block_indices != sorted(set(block_indices)) or block_indices[0] == 0:
        raise PipelineError(
            f"If virtual stage {piece} began at `{path}`, a neighbour would be empty.", ["keep at least one block in each virtual stage"]
        )
    return replace(spec, boundaries=tuple(starts)), f"{stage_text(piece, spec)} begins at {path}"


def _by_time(_: str, plan: Plan, __: Report) -> Change:
    return replace(spec_of(plan), boundaries=()), "balance by time"


def _by_memory(_: str, plan: Plan, report: Report) -> Change:
    """Balance by memory: resident bytes of a block count once, residuals once per micro-batch in flight."""
    planned, spec = require_pipeline(report), spec_of(plan)
    assert planned.costs_at is not None, "from the planner"
    block_costs = planned.costs_at(range(1, len(planned.blocks)))
    keeping = [device for device in range(spec.stages) if not spec.recomputes(spec.micro_batches - 1, device)]
    times = max((planned.simulated.in_flight(device) for device in keeping), default=1)
    partition = balance([cost.resident + times * cost.residuals for cost in block_costs], spec.virtual_stages)
    return replace(spec, boundaries=tuple(planned.blocks[start].path for start in partition.starts)), "balance by memory"


def _by_buckets(_: str, plan: Plan, report: Report) -> Change:
    planned, spec = require_pipeline(report), spec_of(plan)
    starts = bucket_starts(planned)
    if len(set(starts)) < len(starts) or starts[:1] == (0,) or starts[-1:] == (len(planned.blocks),):
        raise PipelineError(
            f"The bucket rule leaves one of the {spec.virtual_stages} virtual stages empty.", ["balance by time", "use fewer stages"]
        )
    return replace(spec, boundaries=tuple(planned.blocks[start].path for start in starts)), "bucket rule"


def bucket_starts(planned: PipelineReport) -> tuple[int, ...]:
    """Return the first blocks of virtual stages by lingvo's rule; two are equal if it leaves a stage empty."""
    sizes = bucket_rule([block.work for block in planned.blocks], planned.spec.virtual_stages)
    return tuple(sum(sizes[:piece]) for piece in range(1, len(sizes)))


def stage_text(piece: int, spec: PipelineSpec) -> str:
    """Format a virtual stage: `stage 1`, or with chunks `stage 1 chunk 2`."""
    return f"stage {spec.device_of(piece)}" + (f" chunk {piece // spec.stages}" if spec.chunks > 1 else "")


def _find_pipeline(report: Report) -> PipelineReport | None:
    try:
        return report.pipeline
    except PipelineError:
        return None


def require_pipeline(report: Report) -> PipelineReport:
    if (planned := report.pipeline) is None:
        raise PipelineError("The plan has no pipeline.", ["make one first"])
    return planned


STAGE_EDITS: dict[Kind, EditMaker] = edits_of(
    means(gestures.MakePipelineGesture, lambda gesture, plan, _report: propose_pipeline(plan, gesture.value).edit),
    means(gestures.RemovePipelineGesture, _remove),
    _changes(gestures.StagesGesture, _stages),
    _changes(gestures.MicroBatchesGesture, _micro_batches),
    _changes(gestures.ChunksGesture, _chunks),
    _changes(gestures.ScheduleGesture, _schedule),
    _changes(gestures.StageRematGesture, _remat),
    _changes(gestures.EngineGesture, lambda name, plan, _: (replace(spec_of(plan), engine=name), f"engine {name}")),
    _changes(gestures.StageAxisGesture, _axis),
    _changes(gestures.BoundaryGesture, _boundary),
    _changes(gestures.BalanceTimeGesture, _by_time),
    _changes(gestures.BalanceMemoryGesture, _by_memory),
    _changes(gestures.BucketsGesture, _by_buckets),
)
