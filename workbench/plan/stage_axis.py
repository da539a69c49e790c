"""Which mesh axis the stages of a pipeline are placed along: one that is there for them, or a new one where there is room for it."""

from dataclasses import replace

from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec
from workbench.errors import PipelineError
from workbench.hardware.hardware import Hardware

STAGE_AXES = ("stage", "pipe", "pipeline", "pp")
"""What people call the axis of the stages; the first is the pipeline's default."""


def splits_nothing(axis: str, layout: Layout) -> bool:
    """Whether the layout shards nothing over an axis."""
    return layout.map_axes({axis: None}) == layout


def on_stage_axis(pipeline: PipelineSpec | None, mesh: Mesh, layout: Layout) -> PipelineSpec | None:
    """The pipeline along the axis of the mesh that is meant for its stages: where the mesh has none with the default name, the one with
    another of `STAGE_AXES` that splits nothing and has as many groups of devices as there are stages.

    >>> print(on_stage_axis(PipelineSpec(4, 8), Mesh("data:2 pp:4"), Layout("batch:data")))
    stages:4 micro_batches:8 schedule:1f1b axis:pp
    """
    if pipeline is None or pipeline.axis in mesh or pipeline.axis != STAGE_AXES[0]:
        return pipeline
    fits = (name for name in STAGE_AXES if name in mesh and mesh[name] == pipeline.stages and splits_nothing(name, layout))
    return replace(pipeline, axis=next(fits, pipeline.axis))


def with_stage_axis(mesh: Mesh, pipeline: PipelineSpec | None) -> Mesh:
    """The mesh with an axis of one device for a pipeline of one stage, gradient accumulation, that names none of its axes.

    >>> print(with_stage_axis(Mesh("data:8"), PipelineSpec.parse("accumulate:4")))
    stage:1 data:8
    """
    return mesh if pipeline is None or pipeline.stages > 1 or pipeline.axis in mesh else Mesh({pipeline.axis: 1, **dict(mesh.axes)})


def verify_room(mesh: Mesh, layout: Layout, pipeline: PipelineSpec, hardware: Hardware | None) -> None:
    """Raises `PipelineError` where a new mesh axis for the stages, beside those of `mesh`, would need more devices than the hardware has.
    An axis that the user put into the mesh is not asked about."""
    axis, stages = pipeline.axis, pipeline.stages
    needed = stages * mesh.size
    if hardware is None or needed <= hardware.size:
        return
    taken = [f"`{name}`, an unused axis: axis:{name}" for name, size in mesh.axes if size == stages and splits_nothing(name, layout)]
    smaller = [(name, size // stages) for name, size in mesh.axes if size % stages == 0 and needed // stages <= hardware.size]
    raise PipelineError(
        f"{stages} stages on a new mesh axis `{axis}` in addition to `{mesh}` need {stages} × {mesh.size} = {needed} "
        f"devices, and {hardware} has "
        f"{hardware.size}.",
        [
            *(f"place them along {each}" for each in taken),
            *(f"make `{name}` {size}: {stages} × {mesh.size // stages} = {mesh.size} devices" for name, size in smaller),
            f"name hardware with {needed} devices",
            f"set the mesh explicitly, `{f'{axis}:{stages} {mesh}'.strip()}`",
        ],
    )
