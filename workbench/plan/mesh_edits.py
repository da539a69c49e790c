"""Edits of the mesh; dimensions on a removed axis are no longer sharded by it. `edits` exports them."""

from dataclasses import dataclass, replace

from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec, fit_remat
from workbench.errors import MeshError
from workbench.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class SetMesh:
    """Replace the mesh; removed axes are dropped from the layout."""

    mesh: Mesh

    def apply(self, plan: Plan) -> Plan:
        removed = {name: None for name in plan.mesh.names if name not in self.mesh}
        axis_assignment = plan.axis_assignment and plan.axis_assignment.restricted(self.mesh)
        return plan.updated(
            mesh=self.mesh,
            layout=plan.layout.map_axes(removed),
            axis_assignment=axis_assignment,
            pipeline=_fit_pipeline(plan.pipeline, self.mesh),
        )

    def __str__(self) -> str:
        return f"mesh {self.mesh}"


@dataclass(frozen=True, slots=True)
class ResizeAxis:
    """Change the size of a mesh axis."""

    axis: str
    size: int

    def apply(self, plan: Plan) -> Plan:
        _ = plan.mesh[self.axis]
        return SetMesh(Mesh(tuple((name, self.size if name == self.axis else size) for name, size in plan.mesh.axes))).apply(plan)

    def __str__(self) -> str:
        return f"{self.axis}:{self.size}"


@dataclass(frozen=True, slots=True)
class AddAxis:
    """Add a mesh axis, minor to the others."""

    axis: str
    size: int

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(mesh=Mesh((*plan.mesh.axes, (self.axis, self.size))))

    def __str__(self) -> str:
        return f"+ {self.axis}:{self.size}"


@dataclass(frozen=True, slots=True)
class RemoveAxis:
    """Remove a mesh axis; dimensions are no longer sharded over it."""

    axis: str

    def apply(self, plan: Plan) -> Plan:
        _ = plan.mesh[self.axis]
        return SetMesh(Mesh(tuple((name, size) for name, size in plan.mesh.axes if name != self.axis))).apply(plan)

    def __str__(self) -> str:
        return f"- {self.axis}"


@dataclass(frozen=True, slots=True)
class RenameAxis:
    """Rename a mesh axis, also in the layout, the axis assignment and the pipeline."""

    axis: str
    name: str

    def apply(self, plan: Plan) -> Plan:
        _ = plan.mesh[self.axis]
        mesh = Mesh(tuple((self.name if name == self.axis else name, size) for name, size in plan.mesh.axes))
        axis_assignment = plan.axis_assignment and plan.axis_assignment.renamed(self.axis, self.name)
        layout = plan.layout.map_axes({self.axis: self.name})
        pipeline = plan.pipeline and replace(plan.pipeline, axis=self.name if plan.pipeline.axis == self.axis else plan.pipeline.axis)
        return plan.updated(mesh=mesh, layout=layout, axis_assignment=axis_assignment, pipeline=pipeline)

    def __str__(self) -> str:
        return f"axis {self.axis} → {self.name}"


@dataclass(frozen=True, slots=True)
class ReorderAxes:
    """Reorder the mesh axes, major to minor, which determines neighboring devices."""

    names: tuple[str, ...]

    def apply(self, plan: Plan) -> Plan:
        if sorted(self.names) != sorted(plan.mesh.names):
            raise MeshError(f"{', '.join(self.names)} is not an order of {', '.join(plan.mesh.names)}.", ["name each axis once"])
        return plan.updated(mesh=Mesh(tuple((name, plan.mesh[name]) for name in self.names)))

    def __str__(self) -> str:
        return f"axes {' '.join(self.names)}"


def _fit_pipeline(pipeline: PipelineSpec | None, mesh: Mesh) -> PipelineSpec | None:
    """Fit the pipeline's stages to its resized axis, dropping excess boundaries; `None` if the axis is gone."""
    if pipeline is None or pipeline.axis not in mesh:
        return None
    stages = mesh[pipeline.axis]
    fits = len(pipeline.boundaries) < stages * pipeline.chunks
    remat = fit_remat(pipeline.remat, stages)
    return replace(pipeline, stages=stages, boundaries=pipeline.boundaries if fits else (), remat=remat)
