"""A plan: a program, a mesh, and the layout of the program on it."""

import warnings
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec, read_pipeline
from workbench.core.program import Program
from workbench.core.sharding import Sharding
from workbench.errors import WorkbenchError, wrong_type
from workbench.hardware.axis_assignment_text import AxisAssignment, read_axis_assignment
from workbench.hardware.axis_placement import verify_links
from workbench.hardware.catalogue import read_hardware
from workbench.hardware.hardware import Hardware
from workbench.plan.layout_legality import verify_layout, verify_pipeline
from workbench.plan.stage_axis import on_stage_axis, with_stage_axis
from workbench.plan.written_layout import read_layout


@dataclass(frozen=True, init=False, eq=False)
class Plan:
    """A program with its mesh and layout; immutable, and nothing here executes.

    `layout="as written"` is the program's own sharding of its arguments, and the default if there is one.

    `hardware` is the target, if any (`"TPU v5p 8x8x16"`), and `axis_assignment` maps mesh axes to its links (default:
    `axis_placement.default_axis_assignment`). A mesh that does not fit the hardware is a diagnostic of the report; an
    axis assignment over missing links is a `HardwareError`. `pipeline` partitions the program into stages along one
    mesh axis (`"stages:4 micro_batches:16 schedule:1f1b"`), or accumulates gradients without stages (`"accumulate:8"`).

    **Invariants**

    - The layout is legal for the program on the mesh (`layout_legality.verify_layout`), else the constructor raises
      `LayoutError`.
    - The pipeline's axis is in the mesh, has as many devices as stages, and shards nothing else; its micro-batches
      divide the batch of a training step; else the constructor raises `PipelineError`. That the program has enough
      blocks, including those named by `boundaries`, is checked when an edit needs them (`pipeline.balance.apply_edit`),
      if they are known, and by the report's notes.
    """

    program: Program
    mesh: Mesh
    layout: Layout
    name: str
    hardware: Hardware | None
    axis_assignment: AxisAssignment | None
    pipeline: PipelineSpec | None

    def __init__(
        self,
        program: Program,
        mesh: Mesh | str,
        layout: Layout | str | None = None,
        name: str = "",
        hardware: Hardware | str | None = None,
        axis_assignment: AxisAssignment | str | None = None,
        pipeline: PipelineSpec | str | None = None,
        *,
        wiring: AxisAssignment | str | None = None,
    ) -> None:
        if wiring is not None:
            _warn_of_former_name()
        if not isinstance(program, Program):
            raise WorkbenchError(wrong_type("program", program, "a `Program`"), _suggest_programs(program))
        object.__setattr__(self, "hardware", read_hardware(hardware))
        program = program.for_platform((self.hardware and self.hardware.chip.platform) or "cpu")
        pipeline = read_pipeline(pipeline)
        object.__setattr__(self, "mesh", with_stage_axis(mesh if isinstance(mesh, Mesh) else Mesh(mesh), pipeline))
        program = program.for_mesh(tuple(each for each in self.mesh.axes if pipeline is None or each[0] != pipeline.axis))
        written = read_layout(layout, program, self.mesh).with_aliases(program.proposed.aliases)
        object.__setattr__(self, "layout", written.with_present_dims(program.former_dims, program.dims))
        object.__setattr__(self, "program", program.with_turns(self.layout.turns))
        object.__setattr__(self, "name", name or program.name)
        object.__setattr__(self, "axis_assignment", read_axis_assignment(axis_assignment or wiring))
        object.__setattr__(self, "pipeline", on_stage_axis(pipeline, self.mesh, self.layout))
        if self.hardware is not None and self.axis_assignment is not None:
            verify_links(self.hardware, self.axis_assignment)
        verify_layout(self.program, self.mesh, self.layout, padded=self.pads_shards)
        verify_pipeline(self.program, self.mesh, self.layout, self.pipeline)

    @property
    def pads_shards(self) -> bool:
        """Return whether the runtime allows uneven shards of weights and their state (`Runtime.pads_shards`)."""
        return self.hardware is not None and self.hardware.runtime.pads_shards

    @cached_property
    def argument_shardings(self) -> tuple[Sharding, ...]:
        return self.layout.shardings(self.program.arguments)

    def updated(self, **changes: Any) -> Self:
        if "wiring" in changes:
            _warn_of_former_name()
            changes["axis_assignment"] = changes.pop("wiring")
        return type(self)(**{**{field.name: getattr(self, field.name) for field in fields(self)}, **changes})

    # A dataclass `__eq__` would treat a plan and an equal plan of a subclass as different.
    def __eq__(self, other: object) -> bool:
        return self._decisions == other._decisions if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._decisions)

    @property
    def _decisions(self) -> tuple[object, ...]:
        return self.program, self.mesh, self.layout, self.name, self.hardware, self.axis_assignment, self.pipeline

    def __str__(self) -> str:
        traced_with = f", {self.program.traced_with}" if self.program.traced_with else ""
        pipelined = f", pipeline {self.pipeline}" if self.pipeline else ""
        return f"{self.name} on {self.mesh.description}: {str(self.layout) or 'replicated'}{traced_with}{pipelined}"

    def __repr__(self) -> str:
        return f"Plan({self.program.name!r}, mesh={str(self.mesh)!r}, layout={str(self.layout)!r})"


def _warn_of_former_name() -> None:
    warnings.warn("`wiring` of a plan is now called `axis_assignment`.", DeprecationWarning, stacklevel=3)


def _suggest_programs(given: object) -> list[str]:
    if isinstance(given, str | Path):
        name = str(given)[:80]
        return [f'load a plan, `workbench.load("{name}")`' if name.endswith(".json") else f'write `workbench.models.build("{name}")`']
    if callable(given):
        return ["trace it, `workbench.trace_training(loss, params, batch, optimizer=...)`", "`workbench.trace(function, *arguments)`"]
    return ['build a model, `workbench.models.build("gpt")`', "trace a function, `workbench.trace_training(...)`"]
