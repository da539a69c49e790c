"""The plan class for users, `wb.Plan`: the data of `plan.plan.Plan` with methods such as `plan.report()` and
`plan.run()`.

Methods import their packages on first use, so that a plan needs none of them. The package itself does not call them: it
calls `analyze(plan)`, `partition_plan(plan)` etc., or receives a function.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import WorkbenchError, unknown_name, wrong_type
from workbench.hardware.catalogue import read_hardware
from workbench.hardware.hardware import Hardware
from workbench.plan import plan as data

if TYPE_CHECKING:
    from workbench.analysis.plan_diff import PlanDiff
    from workbench.analysis.tier_comparison import Comparison
    from workbench.models.sizing.cluster_answer import ClusterAnswer
    from workbench.plan.edits import Edit
    from workbench.reports.compiled import Compiled
    from workbench.reports.latency_front import LatencyFront
    from workbench.reports.measurement import Measurement
    from workbench.reports.partitioned import Partitioned
    from workbench.reports.report import Report
    from workbench.search.search_result import SearchResult

TIERS = ("planned", "partitioned", "compiled")  # of a report


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Plan(data.Plan):
    __doc__ = data.Plan.__doc__

    def apply(self, edit: "Edit") -> "Plan":
        """Return the plan after one edit. Raises a `WorkbenchError` if the result would be illegal."""
        from workbench.pipeline.balance import apply_edit

        return as_public(apply_edit(self, edit))

    def recipe(self, name: str, *axes: str) -> "Plan":
        """Apply a known recipe: `plan.recipe("data_parallel").recipe("megatron", "model").recipe("zero_1")`.

        `workbench.recipes` lists them; mesh axes are found by name if not given. Raises `RecipeError` if the recipe
        does not apply; warns (`RecipeWarning`) if it makes the step notably longer on the plan's hardware.
        """
        from workbench.analysis.recipe_effect import warn_of_drawback
        from workbench.recipes import find_recipe

        recipe = find_recipe(name, axes)
        changed = self.apply(recipe.edit(self))
        warn_of_drawback(self, changed, recipe)
        return changed

    def report(self, tier: str = "planned") -> "Report":
        """Return the report of what every device holds, sends and computes; `print` it.

        `planned` (Shardy in this process) is immediate; `partitioned` has the collectives of XLA's own partitioner and
        all dependent figures, usually within half a second; `compiled` also has memory and kernel times from the
        compiler of the hardware, or of the attached devices, which takes seconds to minutes. Raises `PartitionError` if
        XLA rejects the plan, `EngineError` if it cannot be compiled.
        """
        from workbench.analysis.analyze import analyze
        from workbench.analysis.compiled_report import with_compiled

        if tier not in TIERS:
            raise WorkbenchError(*unknown_name("tier", tier, TIERS))
        report = analyze(self, answer=None if tier == "planned" else self.partition())
        return with_compiled(report, self.compile()) if tier == "compiled" else report

    def partition(self, hardware: Hardware | str | None = None) -> "Partitioned":
        """Partition the plan with XLA for this hardware (default: the plan's) in a worker process, without compiling.

        Raises `PartitionError` if XLA rejects the plan or crashes.
        """
        from workbench.engine import partition_plan

        return partition_plan(self, read_hardware(hardware))

    def run(self, steps: int = 20, on_progress: "Callable[[Any], None] | None" = None, **options: Any) -> "Measurement":
        """Run on the attached devices in a worker process and measure; for options see `engine.run_plan`."""
        from workbench.engine import run_plan

        return run_plan(self, steps=steps, on_progress=on_progress, **options)

    def compile(
        self, hardware: Hardware | str | None = None, on_progress: "Callable[[Any], None] | None" = None, **options: Any
    ) -> "Compiled":
        """Compile in a worker process, for this hardware (may be absent), the plan's, or the attached devices.

        For options see `engine.compile_plan`. `print` the result.
        """
        from workbench.engine import compile_plan

        return compile_plan(self, read_hardware(hardware), on_progress=on_progress, **options)

    def compare(self, hardware: Hardware | str | None = None, measurement: "Measurement | None" = None, **options: Any) -> "Comparison":
        """Compare report, compiled plan and, if given, a run's `measurement`. Options are those of `compile`."""
        from workbench.analysis.tier_comparison import Comparison
        from workbench.plan.edits import SetHardware

        plan = self if hardware is None else as_public(SetHardware(read_hardware(hardware)).apply(self))
        return Comparison(plan.report(), plan.compile(**options), measurement)

    def diff(self, other: "Plan") -> "PlanDiff":
        """Compare the decisions and figures of another plan; `print` the result."""
        from workbench.analysis.analyze import analyze
        from workbench.analysis.plan_diff import PlanDiff

        if not isinstance(other, data.Plan):
            raise WorkbenchError(wrong_type("other", other, "a `Plan`"), ['write `plan.diff(plan.recipe("megatron"))`, say'])
        return PlanDiff(analyze(self), analyze(other))

    def search(self, *, workers: int | None = None, cluster: str | None = None, **wanted: Any) -> "SearchResult":
        """Search for the best plan of this plan's program: `plan.search(devices=256, hardware="TPU v5p", within=60)`.

        Chooses layout, mesh, ZeRO, rematerialization, stages, schedule and micro-batches; `pins`, `at_most`,
        `objective` and the choices are arguments of `search.find_plans.find_plans` and `search.make_space.make_space`.
        Runs in `workers` local processes, or on a Ray `cluster`. `print` the result; its `best` is a plan. Raises
        `SearchError`.
        """
        from functools import partial

        from workbench.analysis.verify_plan import Compilers
        from workbench.engine import compile_plan, open_answerer, partition_plan
        from workbench.search.find_plans import find_plans

        answerer = partial(open_answerer, workers=workers, cluster=cluster)
        return find_plans(self, open_answerer=answerer, compilers=Compilers(partition_plan, compile_plan), **wanted)

    def latency_front(self, batches: Sequence[int], hardware: Sequence[str | Hardware] = (), **more: Any) -> "LatencyFront":
        """Return latency and throughput of this decoding step by batch and hardware, with the Pareto front.

        Example: `plan.latency_front([1, 8, 64], ["TPU v5e 2x2", "TPU v5e 4x4"])`. `print` the result. A program outside
        the zoo needs `make(batch)`, which builds it. Raises `SearchError` for a program that is no decoding step.
        """
        from workbench.search.decode_front import latency_front

        return latency_front(self, batches, hardware, **more)

    def save(self, path: str | Path) -> None:
        """Write the plan document (`*.plan.json`); `workbench.load(path)` reads it."""
        from workbench.documents import save_plan

        save_plan(self, path)

    def export(self) -> str:
        """Return a short JAX script that shards the same program in the same way."""
        from workbench.documents import export_script

        return export_script(self)

    def to_chrome_trace(self, measurement: "Measurement | None" = None, tier: str = "planned") -> str:
        """Return the step over time as JSON for ui.perfetto.dev.

        Has the prediction, the compiled step for that `tier` (see `report`), and the `measurement` of `plan.run()`.
        Raises `WorkbenchError` without hardware and measurement.
        """
        from workbench.documents.chrome_trace import chrome_trace

        return chrome_trace(self.report(tier), measurement)

    def export_file(self, path: str | Path, form: str = "", measurement: "Measurement | None" = None) -> Path:
        """Export the plan to a file and return its path.

        `report.html` is a single page; `step.trace.json` is for Perfetto; `board.png` or `.svg` is a picture of the
        board; `.py` is the script. `form` names an entry of `visualize.exports.find_export` if the extension does not.
        Raises `WorkbenchError` for an unknown extension, or if there is nothing to export.
        """
        from workbench.visualize.exports.file_exports import export_file

        return export_file(self.report(), path, form, measurement)

    def _repr_html_(self) -> str:
        from workbench.core.text_tables import html_text, pairs_text

        facts = [
            ("program", self.program.name, f"{self.program.reference or 'traced here'}"),
            ("mesh", str(self.mesh), f"{self.mesh.size:,} device{'s' * (self.mesh.size != 1)}"),
            ("layout", str(self.layout) or "everything replicated", self.program.traced_with),
            *([("hardware", self.hardware.name, "")] if self.hardware else []),
            *([("pipeline", str(self.pipeline), "")] if self.pipeline else []),
        ]
        return html_text(lambda: f"{self.name}\n{pairs_text(facts)}")


def as_public(plan: data.Plan) -> Plan:
    """Return the plan with user methods; unchanged if it has them."""
    if isinstance(plan, Plan):
        return plan
    public = object.__new__(Plan)
    public.__dict__.update(plan.__dict__)  # already checked
    return public


def load(path: str | Path, allow: str | Iterable[str] = ()) -> Plan:
    """Read a plan document; `allow="mine"` lets it name programs of the module `mine`, which is then imported.

    Raises the errors of `documents.parse_plan`, and `DocumentError` if the file cannot be read.
    """
    from workbench.documents import load_plan

    return as_public(load_plan(path, allow))


def plan_config(config: str | Path, on: str | Hardware, **options: Any) -> "ClusterAnswer":
    """Return whether a model fits a cluster, its step time, and its fastest, smallest and cheapest plans.

    Example: `print(wb.plan_config("config.json", "64 H100", tokens="2T"))`. `config` is a Hugging Face `config.json`,
    its folder, or a zoo preset. For options and errors see `models.sizing.plan_config.plan_config`.
    """
    from workbench.models.sizing.plan_config import plan_config

    return plan_config(config, on, plan_class=Plan, **options)
