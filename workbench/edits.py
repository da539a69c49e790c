"""Edits: what a gesture, a command line flag or a search step does to a plan. Frozen, named, printable; undo is the plan before."""

from dataclasses import dataclass, field, replace
from typing import Protocol

from workbench.errors import HardwareError, LayoutError, MeshError, unknown_name
from workbench.hardware import Hardware
from workbench.layout import Layout
from workbench.mesh import Mesh
from workbench.pipeline_spec import PipelineSpec
from workbench.plan import Plan
from workbench.precision import Precision
from workbench.remat import Remat
from workbench.sharding import Sharding
from workbench.statement_edits import Prioritize, SetBarrier, Tie, Untie
from workbench.topology import Wiring, wiring_problem


class Edit(Protocol):
    """A change from plan to plan. `str(edit)` is what the history shows."""

    def apply(self, plan: Plan) -> Plan:
        """The plan after the edit; raises a `WorkbenchError` if that would be illegal."""
        ...


@dataclass(frozen=True, slots=True)
class PlaceDim:
    """Put a dimension onto mesh axes, major to minor; onto none to leave it whole."""

    dim: str
    axes: tuple[str, ...] = ()

    def apply(self, plan: Plan) -> Plan:
        if self.dim not in plan.program.dims:
            raise LayoutError(*unknown_name("dimension", self.dim, plan.program.dims))
        return plan.updated(layout=plan.layout.with_rule(self.dim, self.axes))

    def __str__(self) -> str:
        return f"{self.dim} → {'+'.join(self.axes) or 'whole'}"


@dataclass(frozen=True, slots=True)
class Override:
    """Place one argument (or all whose path matches) in its own way, or a result that is not carried on; `None` takes the override back."""

    pattern: str
    sharding: Sharding | None

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(layout=plan.layout.with_override(self.pattern, self.sharding))

    def __str__(self) -> str:
        return f"{self.pattern} → {self.sharding or 'by the rules'}"


@dataclass(frozen=True, slots=True)
class Constrain:
    """Constrain the intermediate values whose path matches; `None` takes the constraint back."""

    pattern: str
    sharding: Sharding | None

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(layout=plan.layout.with_constraint(self.pattern, self.sharding))

    def __str__(self) -> str:
        return f"@{self.pattern} → {self.sharding or 'free'}"


@dataclass(frozen=True, slots=True)
class SetLayout:
    """Replace the whole layout."""

    layout: Layout

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(layout=self.layout)

    def __str__(self) -> str:
        return f"layout {str(self.layout) or 'replicated'}"


@dataclass(frozen=True, slots=True)
class SetMesh:
    """Replace the mesh; rules on axes that are gone are dropped."""

    mesh: Mesh

    def apply(self, plan: Plan) -> Plan:
        gone = {name: None for name in plan.mesh.names if name not in self.mesh}
        wiring = plan.wiring and plan.wiring.restricted(self.mesh)
        return plan.updated(mesh=self.mesh, layout=plan.layout.map_axes(gone), wiring=wiring, pipeline=_fitted(plan.pipeline, self.mesh))

    def __str__(self) -> str:
        return f"mesh {self.mesh}"


@dataclass(frozen=True, slots=True)
class ResizeAxis:
    """Give a mesh axis another size."""

    axis: str
    size: int

    def apply(self, plan: Plan) -> Plan:
        _ = plan.mesh[self.axis]
        mesh = Mesh(tuple((name, self.size if name == self.axis else size) for name, size in plan.mesh.axes))
        return plan.updated(mesh=mesh, pipeline=_fitted(plan.pipeline, mesh))

    def __str__(self) -> str:
        return f"{self.axis}:{self.size}"


@dataclass(frozen=True, slots=True)
class AddAxis:
    """A new mesh axis, minor to the others."""

    axis: str
    size: int

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(mesh=Mesh((*plan.mesh.axes, (self.axis, self.size))))

    def __str__(self) -> str:
        return f"+ {self.axis}:{self.size}"


@dataclass(frozen=True, slots=True)
class RemoveAxis:
    """Remove a mesh axis; what lay on it becomes whole there."""

    axis: str

    def apply(self, plan: Plan) -> Plan:
        _ = plan.mesh[self.axis]
        mesh = Mesh(tuple((name, size) for name, size in plan.mesh.axes if name != self.axis))
        wiring = plan.wiring and plan.wiring.restricted(mesh)
        layout = plan.layout.map_axes({self.axis: None})
        return plan.updated(mesh=mesh, layout=layout, wiring=wiring, pipeline=_fitted(plan.pipeline, mesh))

    def __str__(self) -> str:
        return f"- {self.axis}"


@dataclass(frozen=True, slots=True)
class RenameAxis:
    """Rename a mesh axis, and everything that lies on it."""

    axis: str
    name: str

    def apply(self, plan: Plan) -> Plan:
        _ = plan.mesh[self.axis]
        mesh = Mesh(tuple((self.name if name == self.axis else name, size) for name, size in plan.mesh.axes))
        wiring = plan.wiring and plan.wiring.renamed(self.axis, self.name)
        layout = plan.layout.map_axes({self.axis: self.name})
        pipeline = plan.pipeline and replace(plan.pipeline, axis=self.name if plan.pipeline.axis == self.axis else plan.pipeline.axis)
        return plan.updated(mesh=mesh, layout=layout, wiring=wiring, pipeline=pipeline)

    def __str__(self) -> str:
        return f"axis {self.axis} → {self.name}"


@dataclass(frozen=True, slots=True)
class ReorderAxes:
    """Mesh axes in another order, major to minor: which devices are neighbours."""

    names: tuple[str, ...]

    def apply(self, plan: Plan) -> Plan:
        if sorted(self.names) != sorted(plan.mesh.names):
            raise MeshError(f"{', '.join(self.names)} is not an order of {', '.join(plan.mesh.names)}.", ["name each axis once"])
        return plan.updated(mesh=Mesh(tuple((name, plan.mesh[name]) for name in self.names)))

    def __str__(self) -> str:
        return f"axes {' '.join(self.names)}"


@dataclass(frozen=True, slots=True)
class RenameDim:
    """Rename a dimension of the program, and its rule."""

    dim: str
    name: str

    def apply(self, plan: Plan) -> Plan:
        program = plan.program.rename({self.dim: self.name})
        return plan.updated(program=program, layout=plan.layout.renamed_dim(self.dim, self.name))

    def __str__(self) -> str:
        return f"dimension {self.dim} → {self.name}"


@dataclass(frozen=True, slots=True)
class SetRemat:
    """What the layers keep for the backward pass; the program is traced again, once for each policy."""

    remat: Remat

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(program=plan.program.variant(remat=self.remat))

    def __str__(self) -> str:
        return f"remat {self.remat}"


@dataclass(frozen=True, slots=True)
class SetPrecision:
    """In which types the step is computed and kept; the program is traced again, once for each precision."""

    precision: Precision

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(program=plan.program.variant(precision=self.precision))

    def __str__(self) -> str:
        return f"precision {self.precision}"


@dataclass(frozen=True, slots=True)
class SetHardware:
    """Plan for other hardware, or for none; a wiring that does not fit it is dropped."""

    hardware: Hardware | None

    def apply(self, plan: Plan) -> Plan:
        fits = self.hardware is not None and wiring_problem(plan.mesh, self.hardware, plan.wiring) is None
        return plan.updated(hardware=self.hardware, wiring=plan.wiring if fits else None)

    def __str__(self) -> str:
        return f"hardware {self.hardware or 'none'}"


@dataclass(frozen=True, slots=True)
class SetWiring:
    """Choose which mesh axes run over which links of the hardware; `None` leaves it to the default."""

    wiring: Wiring | None

    def apply(self, plan: Plan) -> Plan:
        if self.wiring is not None:
            if plan.hardware is None:
                raise HardwareError("A wiring needs hardware; this plan names none.", ['choose some, such as "TPU v5e 16x16"'])
            if problem := wiring_problem(plan.mesh, plan.hardware, self.wiring):
                raise problem
        return plan.updated(wiring=self.wiring)

    def __str__(self) -> str:
        return f"wiring {self.wiring or 'by itself'}"


@dataclass(frozen=True, slots=True)
class SetPipeline:
    """Cut the step into stages, or, with `None`, do not. The mesh axis of the stages is made, resized or removed with it.

    `about` is what of the pipeline it is meant to change, for people.
    """

    pipeline: PipelineSpec | None
    about: str = field(default="", compare=False)

    def apply(self, plan: Plan) -> Plan:
        old, new = plan.pipeline, self.pipeline
        dropped = old.axis if old and (new is None or new.axis != old.axis) else None
        axes = tuple((name, new.stages if new and name == new.axis else size) for name, size in plan.mesh.axes if name != dropped)
        mesh = Mesh(((new.axis, new.stages), *axes) if new and new.axis not in dict(axes) else axes)
        return plan.updated(mesh=mesh, wiring=plan.wiring and plan.wiring.restricted(mesh), pipeline=new)

    def __str__(self) -> str:
        return self.about or f"pipeline {self.pipeline or 'none'}"


def _fitted(pipeline: PipelineSpec | None, mesh: Mesh) -> PipelineSpec | None:
    """With as many stages as its axis now has devices, without the boundaries if they are too many then; `None` if the axis is gone."""
    if pipeline is None or pipeline.axis not in mesh:
        return None
    stages = mesh[pipeline.axis]
    fits = len(pipeline.boundaries) < stages * pipeline.chunks
    return replace(pipeline, stages=stages, boundaries=pipeline.boundaries if fits else ())


@dataclass(frozen=True, slots=True)
class Together:
    """Several edits as one step of the history, `name` for people: a recipe, say. All of them are made, or none."""

    name: str
    edits: tuple[Edit, ...]

    def apply(self, plan: Plan) -> Plan:
        for edit in self.edits:
            plan = edit.apply(plan)
        return plan

    def __str__(self) -> str:
        return f"{self.name} ({len(self.edits)} edit{'s' * (len(self.edits) != 1)})"


@dataclass(frozen=True, slots=True)
class OpenPlan:
    """Replace the plan whole by one of a file or a link, `source` for people."""

    plan: Plan
    source: str

    def apply(self, _: Plan) -> Plan:
        return self.plan

    def __str__(self) -> str:
        return f"open {self.source}"


ALL_EDITS = (
    *(PlaceDim, Override, Constrain, Prioritize, Tie, Untie, SetBarrier, SetLayout),
    *(SetMesh, ResizeAxis, AddAxis, RemoveAxis, RenameAxis, ReorderAxes, RenameDim),
    *(SetRemat, SetPrecision, SetHardware, SetWiring, SetPipeline, Together, OpenPlan),
)
