"""A first pipeline: as many stages as divide the layers and fit the devices, 1F1B, four micro-batches per stage."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from workbench.core.mesh import Mesh
from workbench.core.path_patterns import template
from workbench.core.pipeline_spec import PipelineSpec, micro_batch_counts
from workbench.errors import PipelineError, WorkbenchError
from workbench.pipeline.balance import apply_edit, network_blocks
from workbench.plan.edits import Edit, EditGroup, SetPipeline
from workbench.plan.mesh_edits import ResizeAxis, SetMesh
from workbench.plan.plan import Plan
from workbench.plan.stage_axis import STAGE_AXES
from workbench.units import divisors

MOST_STAGES = 8  # stages to begin with; the user may ask for more
MOST_OF_AN_AXIS = 4  # where devices are taken from other work
NEW_AXIS_STAGES = 4  # where the number of devices is unknown
PER_STAGE = 4  # micro-batches: with four per stage the bubble is a fifth at most


@dataclass(frozen=True, slots=True)
class PipelineStart:
    """The edit, and where its devices come from in words."""

    edit: Edit
    spec: PipelineSpec
    about: str
    mesh: str = ""  # with it, by which one of several is chosen


def propose_pipeline(plan: Plan, mesh: str = "") -> PipelineStart:
    """The pipeline to start with, or the one of several with this mesh. Raises `PipelineError` for a program that cannot be partitioned,
    and where there are several and none is chosen: then the hardware has no devices to spare."""
    starts = list_starts(plan)
    chosen = [each for each in starts if each.mesh == mesh or len(starts) == 1]
    if not chosen:
        raise PipelineError(scarce_text(plan), [f"{each.spec.stages} stages {each.about}" for each in starts])
    return chosen[0]


def list_starts(plan: Plan) -> tuple[PipelineStart, ...]:
    """The pipeline to start with; several where the user has to choose, for all devices of the hardware are taken and none of them can be
    given to as many stages as divide the layers. Raises `PipelineError` for a program that cannot be partitioned."""
    paths = [block.path for block in network_blocks(plan.program, 1)]
    if len(paths) < 2:
        raise PipelineError(
            f"{plan.program.name} has {len(paths)} block; a pipeline needs two.",
            ["add named scopes to its layers to get more blocks"],
        )
    layers = max(Counter(map(template, paths)).values())
    found = _on_idle_axis(plan, len(paths)) or _on_spare_devices(plan, layers) or _on_part_of_axis(plan, layers)
    if found is not None:
        return (found,)
    new = _new_axis(plan, layers)
    is_scarce = plan.hardware is not None and new.spec.stages * plan.mesh.size > plan.hardware.size
    return (*_with_uneven_stages(plan, len(paths)), new) if is_scarce else (new,)


def scarce_text(plan: Plan) -> str:
    """Why there is more than one way."""
    have = plan.hardware.size if plan.hardware else 0
    return (
        f"The mesh takes {plan.mesh.size} of the {have} devices of {plan.hardware}; no number of stages with equal layers fits. Choose one."
    )


def micro_batches_for(plan: Plan, stages: int) -> int:
    """The most micro-batches, up to four per stage, that divide the batch, and if possible leave enough of it for every device."""
    counts = [count for count in micro_batch_counts(plan.program) if count <= PER_STAGE * stages]
    batch = max(micro_batch_counts(plan.program))
    batch_parts = prod(plan.mesh[axis] for axis in plan.layout.rule("batch"))
    return max((count for count in counts if batch // count % batch_parts == 0), default=counts[-1])


def _try_start(plan: Plan, axis: str, stages: int, about: str, *first: Edit) -> PipelineStart | None:
    """The start; `None` where the plan refuses it."""
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
    """A pipeline on an axis of the mesh that nothing is sharded over: one that is named after stages, if there is one."""
    for axis, size in sorted(plan.mesh.axes, key=lambda each: each[0] not in STAGE_AXES):
        if 1 < size <= blocks and (found := _try_start(plan, axis, size, f"on mesh axis `{axis}`, which shards nothing now")):
            return found
    return None


def _on_spare_devices(plan: Plan, layers: int) -> PipelineStart | None:
    """Devices of the hardware that the mesh leaves idle."""
    spare = plan.hardware.size // plan.mesh.size if plan.hardware else 1
    stages = _largest(layers, spare)
    return (
        _try_start(plan, _new_name(plan), stages, f"on a new mesh axis, over devices of {plan.hardware} that are idle now")
        if stages > 1
        else None
    )


def _on_part_of_axis(plan: Plan, layers: int) -> PipelineStart | None:
    """A pipeline on part of the longest axis: the number of devices stays."""
    if not plan.mesh.axes:
        return None
    axis, size = max(plan.mesh.axes, key=lambda each: each[1])
    stages = _largest(layers, size, MOST_OF_AN_AXIS)
    if stages < 2:
        return None
    about = f"on the same {plan.mesh.size} devices: `{axis}` goes from {size} to {size // stages}"
    return _try_start(plan, _new_name(plan), stages, about, ResizeAxis(axis, size // stages))


def _with_uneven_stages(plan: Plan, blocks: int) -> Iterator[PipelineStart]:
    """The fewest stages that part of an axis has devices for, on each axis: the number of devices stays."""
    for axis, size in plan.mesh.axes:
        stages = next((each for each in divisors(size) if 1 < each <= blocks), 0)
        about = f"on the same {plan.mesh.size} devices: `{axis}` goes from {size} to {size // max(stages, 1)}"
        found = _try_start(plan, _new_name(plan), stages, about, ResizeAxis(axis, size // stages)) if stages else None
        if found is not None:
            yield found


def _new_axis(plan: Plan, layers: int) -> PipelineStart:
    stages, axis = max(_largest(layers, NEW_AXIS_STAGES), 2), _new_name(plan)
    needed = stages * plan.mesh.size
    about = f"on a new mesh axis: {stages} × {plan.mesh.size} = {needed} devices"
    asked: tuple[Edit, ...] = ()  # the user's own axis, which is not refused
    if plan.hardware is not None and needed > plan.hardware.size:
        asked = (SetMesh(Mesh(((axis, stages), *plan.mesh.axes))),)
        about += f", and {plan.hardware} has {plan.hardware.size}"
    found = _try_start(plan, axis, stages, about, *asked)
    if found is None:
        raise PipelineError(f"No pipeline fits {plan.mesh}.", ["add an empty mesh axis for its stages"])
    return found


def _largest(layers: int, devices: int, most: int = MOST_STAGES) -> int:
    """The most stages that divide the layers and the devices."""
    return next((count for count in range(most, 1, -1) if layers % count == 0 and devices % count == 0), 1)


def _new_name(plan: Plan) -> str:
    return next(name for name in ("stage", "pipe", *(f"stage{i}" for i in range(99))) if name not in plan.mesh)
