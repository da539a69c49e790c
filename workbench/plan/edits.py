"""Edits of a plan, used by gestures, command line flags and the search: frozen values; undo restores the previous plan."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.offload import Offload
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.precision import Precision
from workbench.core.remat import Remat
from workbench.core.sharding import Sharding
from workbench.errors import HardwareError
from workbench.hardware.axis_assignment_text import AxisAssignment
from workbench.hardware.axis_placement import axis_assignment_error
from workbench.hardware.hardware import Hardware
from workbench.plan.layout_legality import unknown_dim_error
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ReorderAxes, ResizeAxis, SetMesh
from workbench.plan.plan import Plan
from workbench.plan.propagation_edits import GroupValues, Prioritize, SetBarrier, UngroupValues
from workbench.plan.stage_axis import on_stage_axis, verify_room


class Edit(Protocol):
    """A change from one plan to another; `str(edit)` is its text in the history."""

    def apply(self, plan: Plan) -> Plan:
        """Return the edited plan. Raises a `WorkbenchError` if it would be illegal."""
        ...


@dataclass(frozen=True, slots=True)
class ShardDim:
    """Shard a dimension over mesh axes, major to minor; empty axes leave it unsharded."""

    dim: str
    axes: tuple[str, ...] = ()

    def apply(self, plan: Plan) -> Plan:
        dim = plan.program.present_dim(self.dim)
        if dim not in plan.program.dims:
            raise unknown_dim_error(plan.program, self.dim)
        return plan.updated(layout=plan.layout.with_rule(dim, self.axes))

    def layout_after(self, layout: Layout) -> Layout:
        """Return the layout with this statement, legal or not."""
        return layout.with_rule(self.dim, self.axes)

    def __str__(self) -> str:
        return f"{self.dim} → {'+'.join(self.axes) or 'whole'}"


@dataclass(frozen=True, slots=True)
class Override:
    """Override the sharding of matching arguments, or of results not carried over; `None` removes the override."""

    pattern: str
    sharding: Sharding | None

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(layout=self.layout_after(plan.layout))

    def layout_after(self, layout: Layout) -> Layout:
        return layout.with_override(self.pattern, self.sharding)

    def __str__(self) -> str:
        return f"{self.pattern} → {self.sharding or 'by the rules'}"


@dataclass(frozen=True, slots=True)
class Constrain:
    """Constrain the intermediate values whose path matches; `None` removes the constraint."""

    pattern: str
    sharding: Sharding | None

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(layout=self.layout_after(plan.layout))

    def layout_after(self, layout: Layout) -> Layout:
        return layout.with_constraint(self.pattern, self.sharding)

    def __str__(self) -> str:
        return f"@{self.pattern} → {self.sharding or 'free'}"


LayoutEdit = ShardDim | Override | Constrain
"""An edit of one layout statement; several are applied together and checked once."""


@dataclass(frozen=True, slots=True)
class SetLayout:
    """Replace the whole layout."""

    layout: Layout

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(layout=self.layout)

    def __str__(self) -> str:
        return f"layout {str(self.layout) or 'replicated'}"


@dataclass(frozen=True, slots=True)
class RenameDim:
    """Rename a dimension of the program, and its rule."""

    dim: str
    name: str

    def apply(self, plan: Plan) -> Plan:
        dim = plan.program.present_dim(self.dim)
        return plan.updated(program=plan.program.rename({dim: self.name}), layout=plan.layout.renamed_dim(dim, self.name))

    def __str__(self) -> str:
        return f"dimension {self.dim} → {self.name}"


@dataclass(frozen=True, slots=True)
class SetRemat:
    """Choose which values are saved for the backward pass; the program is retraced once per policy."""

    remat: Remat

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(program=plan.program.variant(remat=self.remat))

    def __str__(self) -> str:
        return f"remat {self.remat}"


@dataclass(frozen=True, slots=True)
class SetPrecision:
    """Choose the types of computation and storage; the program is retraced once per precision."""

    precision: Precision

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(program=plan.program.variant(precision=self.precision))

    def __str__(self) -> str:
        return f"precision {self.precision}"


@dataclass(frozen=True, slots=True)
class SetOffload:
    """Choose the state kept in host memory between steps; the program is retraced once per choice."""

    offload: Offload

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(program=plan.program.variant(offload=self.offload))

    def __str__(self) -> str:
        return f"offload {self.offload}"


@dataclass(frozen=True, slots=True)
class SetHardware:
    """Plan for other hardware, or none; an axis assignment that does not fit it is dropped."""

    hardware: Hardware | None

    def apply(self, plan: Plan) -> Plan:
        fits = self.hardware is not None and axis_assignment_error(plan.mesh, self.hardware, plan.axis_assignment) is None
        return plan.updated(hardware=self.hardware, axis_assignment=plan.axis_assignment if fits else None)

    def __str__(self) -> str:
        return f"hardware {self.hardware or 'none'}"


@dataclass(frozen=True, slots=True)
class SetAxisAssignment:
    """Choose which mesh axes run over which links of the hardware; `None` is the default."""

    axis_assignment: AxisAssignment | None

    def apply(self, plan: Plan) -> Plan:
        if self.axis_assignment is not None:
            if plan.hardware is None:
                raise HardwareError("An axis assignment needs hardware; this plan has none.", ['choose some, such as "TPU v5e 16x16"'])
            if problem := axis_assignment_error(plan.mesh, plan.hardware, self.axis_assignment):
                raise problem
        return plan.updated(axis_assignment=self.axis_assignment)

    def __str__(self) -> str:
        return f"axis assignment {self.axis_assignment or 'by itself'}"


@dataclass(frozen=True, slots=True)
class SetPipeline:
    """Partition the step into pipeline stages, or remove the pipeline with `None`; its mesh axis is adapted.

    Raises `PipelineError` instead of adding an axis that needs more devices than the hardware has. `about` is for
    display.
    """

    pipeline: PipelineSpec | None
    about: str = field(default="", compare=False)

    def apply(self, plan: Plan) -> Plan:
        old, new = plan.pipeline, on_stage_axis(self.pipeline, plan.mesh, plan.layout)
        dropped = old.axis if old and (new is None or new.axis != old.axis) else None
        axes = tuple((name, new.stages if new and name == new.axis else size) for name, size in plan.mesh.axes if name != dropped)
        mesh = Mesh(axes)
        if new and new.axis not in mesh:
            verify_room(mesh, plan.layout, new, plan.hardware)
            mesh = Mesh(((new.axis, new.stages), *axes))
        return plan.updated(mesh=mesh, axis_assignment=plan.axis_assignment and plan.axis_assignment.restricted(mesh), pipeline=new)

    def __str__(self) -> str:
        return self.about or f"pipeline {self.pipeline or 'none'}"


def apply_layout_edits(plan: Plan, edits: Iterable[Edit]) -> Plan:
    """Apply layout edits at once. Raises a `WorkbenchError` if illegal, `TypeError` for other edits."""
    layout = plan.layout
    for edit in edits:
        if not isinstance(edit, LayoutEdit):
            raise TypeError(edit)
        layout = edit.layout_after(layout)
    return plan if layout == plan.layout else plan.updated(layout=layout)


@dataclass(frozen=True, slots=True)
class EditGroup:
    """Several edits as one history step, applied all or none; `name` is for display."""

    name: str
    edits: tuple[Edit, ...]

    def apply(self, plan: Plan) -> Plan:
        if all(isinstance(edit, LayoutEdit) for edit in self.edits):
            return apply_layout_edits(plan, self.edits)
        for edit in self.edits:
            plan = edit.apply(plan)
        return plan

    def __str__(self) -> str:
        return f"{self.name} ({len(self.edits)} edit{'s' * (len(self.edits) != 1)})"


@dataclass(frozen=True, slots=True)
class OpenPlan:
    """Replace the whole plan by one from a file or link; `source` is for display."""

    plan: Plan
    source: str

    def apply(self, _: Plan) -> Plan:
        return self.plan

    def __str__(self) -> str:
        return f"open {self.source}"


ALL_EDITS = (
    *(ShardDim, Override, Constrain, Prioritize, GroupValues, UngroupValues, SetBarrier, SetLayout),
    *(SetMesh, ResizeAxis, AddAxis, RemoveAxis, RenameAxis, ReorderAxes, RenameDim),
    *(SetRemat, SetPrecision, SetOffload, SetHardware, SetAxisAssignment, SetPipeline, EditGroup, OpenPlan),
)
