"""A plan: this program, over this mesh, laid out like this."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec, read_pipeline
from workbench.core.program import Program
from workbench.core.sharding import Sharding
from workbench.errors import WorkbenchError, unknown_name, wrong_type
from workbench.hardware.axis_assignment import Wiring, read_wiring
from workbench.hardware.catalogue import read_hardware
from workbench.hardware.hardware import Hardware
from workbench.hardware.topology import verify_links
from workbench.plan.legality import verify_layout, verify_pipeline

if TYPE_CHECKING:
    from workbench.analysis.comparison import Comparison
    from workbench.analysis.plan_diff import PlanDiff
    from workbench.plan.edits import Edit
    from workbench.reports.compiled import Compiled
    from workbench.reports.measurement import Measurement
    from workbench.reports.partitioned import Partitioned
    from workbench.reports.report import Report

TIERS = ("planned", "partitioned", "compiled")  # of a report


@dataclass(frozen=True, init=False)
class Plan:
    """What to run and how it lies. A change is a new plan; nothing here executes.

    `hardware` is what it is planned for, if anything (`"TPU v5p 8x8x16"`), and `wiring` which mesh axis runs over which of its links;
    without one the axes go as `topology.default_wiring` says. A mesh that does not fit the hardware is a diagnostic of the report; a wiring
    over links that the hardware has not is a `HardwareError`.
    `pipeline` cuts the program into stages along one mesh axis (`"stages:4 micro_batches:16 schedule:1f1b"`).

    **Invariants**

    - The layout is legal for the program on the mesh (`legality.verify_layout`); the constructor raises `LayoutError` otherwise.
    - The pipeline's axis is of the mesh, with as many devices as stages, and splits nothing else; its micro-batches divide the batch of a
      training step; the constructor raises `PipelineError`. Whether the program has blocks at all, enough of them, and those that
      boundaries name, is told at once where they are known, else in the report's notes.
    """

    program: Program
    mesh: Mesh
    layout: Layout
    name: str
    hardware: Hardware | None
    wiring: Wiring | None
    pipeline: PipelineSpec | None

    def __init__(
        self,
        program: Program,
        mesh: Mesh | str,
        layout: Layout | str = "",
        name: str = "",
        hardware: Hardware | str | None = None,
        wiring: Wiring | str | None = None,
        pipeline: PipelineSpec | str | None = None,
    ) -> None:
        if not isinstance(program, Program):
            raise WorkbenchError(wrong_type("program", program, "a `Program`"), _programs_like(program))
        object.__setattr__(self, "program", program)
        object.__setattr__(self, "mesh", mesh if isinstance(mesh, Mesh) else Mesh(mesh))
        object.__setattr__(self, "layout", layout if isinstance(layout, Layout) else Layout(layout))
        object.__setattr__(self, "name", name or program.name)
        object.__setattr__(self, "hardware", read_hardware(hardware))
        object.__setattr__(self, "wiring", read_wiring(wiring))
        object.__setattr__(self, "pipeline", read_pipeline(pipeline))
        if self.hardware is not None and self.wiring is not None:
            verify_links(self.hardware, self.wiring)
        verify_layout(self.program, self.mesh, self.layout)
        verify_pipeline(self.program, self.mesh, self.layout, self.pipeline)

    @cached_property
    def argument_shardings(self) -> tuple[Sharding, ...]:
        """Where each argument lies, in order."""
        return self.layout.shardings(self.program.arguments)

    def updated(self, **changes: Any) -> "Plan":
        """A new plan with some of its fields changed."""
        return Plan(**{**{each.name: getattr(self, each.name) for each in fields(self)}, **changes})

    def apply(self, edit: "Edit") -> "Plan":
        """The plan after one edit; raises a `WorkbenchError` and leaves this plan as it is if the result would be illegal."""
        return edit.apply(self)

    # The verbs below call rooms above this one; they are imported when asked for, so that a plan needs neither.

    def recipe(self, name: str, *axes: str) -> "Plan":
        """Laid out in a known way: `plan.recipe("data_parallel").recipe("megatron", "model").recipe("zero_1")`.

        `workbench.recipes` lists them; mesh axes are found by their names where none are given. Raises `RecipeError`, saying why, where
        one does not apply.
        """
        from workbench.recipes import find_recipe

        return self.apply(find_recipe(name, axes).edit(self))

    def report(self, tier: str = "planned") -> "Report":
        """What every device will hold, send and compute. `print` it.

        `planned`, from Shardy in this process, is there at once; `partitioned` has the collectives that XLA's own partitioner makes, and
        all that follows from them, within half a second as a rule; `compiled` has the memory and kernel times of the hardware's compiler
        besides, or that of the attached devices, which takes seconds to minutes. Raises `PartitionError` where XLA refuses the plan, and
        `EngineError` where it cannot be compiled.
        """
        from workbench.analysis.analyze import analyze
        from workbench.analysis.compiled_report import with_compiled

        if tier not in TIERS:
            raise WorkbenchError(*unknown_name("tier", tier, TIERS))
        report = analyze(self, answer=None if tier == "planned" else self.partition())
        return with_compiled(report, self.compile()) if tier == "compiled" else report

    def partition(self, hardware: Hardware | str | None = None) -> "Partitioned":
        """What XLA's partitioner makes of the plan, asked in a worker process, for this hardware or the plan's own. Nothing is compiled.

        Raises `PartitionError` where XLA refuses the plan, or dies of it.
        """
        from workbench.engine import partition_plan

        return partition_plan(self, read_hardware(hardware))

    def run(self, steps: int = 20, on_progress: "Callable[[Any], None] | None" = None, **options: Any) -> "Measurement":
        """Run on the attached devices in a worker process and measure; options are those of `engine.run_plan`."""
        from workbench.engine import run_plan

        return run_plan(self, steps=steps, on_progress=on_progress, **options)

    def compile(
        self, hardware: Hardware | str | None = None, on_progress: "Callable[[Any], None] | None" = None, **options: Any
    ) -> "Compiled":
        """Compile in a worker process, for hardware that may be absent: this one, else the plan's own, else the attached devices.

        Options are those of `engine.compile_plan`. `print` what comes back.
        """
        from workbench.engine import compile_plan

        return compile_plan(self, read_hardware(hardware), on_progress=on_progress, **options)

    def compare(self, hardware: Hardware | str | None = None, measurement: "Measurement | None" = None, **options: Any) -> "Comparison":
        """The report beside what the compiler makes of the plan, and beside what a run measured, if one is given.

        Options are those of `compile`. `print` what comes back.
        """
        from workbench.analysis.comparison import Comparison
        from workbench.plan.edits import SetHardware

        plan = self if hardware is None else SetHardware(read_hardware(hardware)).apply(self)
        return Comparison(plan.report(), plan.compile(**options), measurement)

    def diff(self, other: "Plan") -> "PlanDiff":
        """What another plan decides otherwise, and what that costs or saves. `print` it."""
        from workbench.analysis.plan_diff import PlanDiff

        if not isinstance(other, Plan):
            raise WorkbenchError(wrong_type("other", other, "a `Plan`"), ['write `plan.diff(plan.recipe("megatron"))`, say'])
        return PlanDiff(self.report(), other.report())

    def save(self, path: str | Path) -> None:
        """Write the plan document (`*.plan.json`); `workbench.load(path)` reads it."""
        from workbench.documents import save_plan

        save_plan(self, path)

    def export(self) -> str:
        """A short JAX script that lays the same program out the same way."""
        from workbench.documents import export_script

        return export_script(self)

    def __str__(self) -> str:
        traced_with = f", {self.program.traced_with}" if self.program.traced_with else ""
        pipelined = f", pipeline {self.pipeline}" if self.pipeline else ""
        return f"{self.name} on {self.mesh.told}: {str(self.layout) or 'replicated'}{traced_with}{pipelined}"

    def _repr_html_(self) -> str:
        from workbench.text.tables import html_of, pairs_text

        facts = [
            ("program", self.program.name, f"{self.program.reference or 'traced here'}"),
            ("mesh", str(self.mesh), f"{self.mesh.size:,} device{'s' * (self.mesh.size != 1)}"),
            ("layout", str(self.layout) or "everything replicated", self.program.traced_with),
            *([("hardware", self.hardware.name, "")] if self.hardware else []),
            *([("pipeline", str(self.pipeline), "")] if self.pipeline else []),
        ]
        return html_of(lambda: f"{self.name}\n{pairs_text(facts)}")

    def __repr__(self) -> str:
        return f"Plan({self.program.name!r}, mesh={str(self.mesh)!r}, layout={str(self.layout)!r})"


def _programs_like(given: object) -> list[str]:
    """How one gets a program from what was given in its place."""
    if isinstance(given, str | Path):
        name = str(given)[:80]
        return [f'load a plan, `workbench.load("{name}")`' if name.endswith(".json") else f'write `workbench.models.build("{name}")`']
    if callable(given):
        return ["trace it, `workbench.trace_training(loss, params, batch, optimizer=...)`", "`workbench.trace(function, *arguments)`"]
    return ['build a model, `workbench.models.build("gpt")`', "trace a function, `workbench.trace_training(...)`"]
