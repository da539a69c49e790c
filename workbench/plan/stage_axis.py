"""Choose the mesh axis of the pipeline stages: an existing axis, or a new one if enough devices are available."""

from dataclasses import replace

from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec
from workbench.errors import PipelineError
from workbench.hardware.hardware import Hardware

STAGE_AXES = ("stage", "pipe", "pipeline", "pp")
"""Common names of the stage axis; the first is the default."""


def splits_nothing(axis: str, layout: Layout) -> bool:
    return layout.map_axes({axis: None}) == layout


def on_stage_axis(pipeline: PipelineSpec | None, mesh: Mesh, layout: Layout) -> PipelineSpec | None:
    """Return the pipeline on its mesh axis; without the default, on an unused axis of `STAGE_AXES` of its size.

    >>> print(on_stage_axis(PipelineSpec(4, 8), Mesh("data:2 pp:4"), Layout("batch:data")))
    stages:4 micro_batches:8 schedule:1f1b axis:pp
    """
    if pipeline is None or pipeline.axis in mesh or pipeline.axis != STAGE_AXES[0]:
        return pipeline
    fits = (name for name in STAGE_AXES if name in mesh and mesh[name] == pipeline.stages and splits_nothing(name, layout))
    return replace(pipeline, axis=next(fits, pipeline.axis))


def with_stage_axis(mesh: Mesh, pipeline: PipelineSpec | None) -> Mesh:
    """Return the mesh with an axis of size 1 if a pipeline of one stage (gradient accumulation) has no axis in it.

    >>> print(with_stage_axis(Mesh("data:8"), PipelineSpec.parse("accumulate:4")))
    stage:1 data:8
    """
    return mesh if pipeline is None or pipeline.stages > 1 or pipeline.axis in mesh else Mesh({pipeline.axis: 1, **dict(mesh.axes)})


def verify_room(mesh: Mesh, layout: Layout, pipeline: PipelineSpec, hardware: Hardware | None) -> None:
    """Raise `PipelineError` if a new stage axis would need more devices than the hardware has.

    Axes that the user put into the mesh are not checked.
    """
    axis, stages = pipeline.axis, pipeline.stages
    needed = stages * mesh.size
    if hardware is None or needed <= hardware.size:
        return
    existing = [f"`{name}`, an unused axis: axis:{name}" for name, size in mesh.axes if size == stages and splits_nothing(name, layout)]
    smaller = [(name, size // stages) for name, size in mesh.axes if size % stages == 0 and needed // stages <= hardware.size]
    raise PipelineError(
        f"{stages} stages on a new mesh axis `{axis}` in addition to `{mesh}` need {stages} × {mesh.size} = {needed} "
        f"devices, and {hardware} has "
        f"{hardware.size}.",
        [
            *(f"place them along {suggestion}" for suggestion in existing),
            *(f"make `{name}` {size}: {stages} × {mesh.size // stages} = {mesh.size} devices" for name, size in smaller),
            f"name hardware with {needed} devices",
            f"set the mesh explicitly, `{f'{axis}:{stages} {mesh}'.strip()}`",
        ],
    )
