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
