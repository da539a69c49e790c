"""The plan that users hold: `wb.Plan`, the data of `plan.plan.Plan` with `plan.report()`, `plan.run()`, `plan.save(path)` and the others.

The methods call packages all over the workbench, each imported on first use, so that a plan needs none of them. Nothing inside the package
calls them: it calls `analyze(plan)`, `partition_plan(plan)` and the like, or is given a function.
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
        """The plan after one edit; raises a `WorkbenchError` and leaves this plan as it is if the result would be illegal."""
        from workbench.pipeline.balance import apply_edit

        return as_public(apply_edit(self, edit))

    def recipe(self, name: str, *axes: str) -> "Plan":
        """Apply a known recipe: `plan.recipe("data_parallel").recipe("megatron", "model").recipe("zero_1")`.

        `workbench.recipes` lists them; mesh axes are found by their names where none are given. Raises `RecipeError`, saying why, where
        one does not apply; warns (`RecipeWarning`) where it makes the step on the plan's hardware notably longer.
        """
        from workbench.analysis.recipe_effect import warn_of_drawback
        from workbench.recipes import find_recipe

        recipe = find_recipe(name, axes)
        changed = self.apply(recipe.edit(self))
        warn_of_drawback(self, changed, recipe)
        return changed

    def report(self, tier: str = "planned") -> "Report":
        """The report of what every device will hold, send and compute. `print` it.

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
        """What XLA's partitioner makes of the plan for this hardware or the plan's own, in a worker process. Nothing is compiled.

        Raises `PartitionError` where XLA refuses the plan, or crashes on it.
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
        """The report beside what the compiler makes of the plan and, if `measurement` is given, beside what a run measured.

        Options are those of `compile`. `print` what comes back.
        """
        from workbench.analysis.tier_comparison import Comparison
        from workbench.plan.edits import SetHardware

        plan = self if hardware is None else as_public(SetHardware(read_hardware(hardware)).apply(self))
        return Comparison(plan.report(), plan.compile(**options), measurement)

    def diff(self, other: "Plan") -> "PlanDiff":
        """What another plan decides differently, and what that costs or saves. `print` it."""
        from workbench.analysis.analyze import analyze
        from workbench.analysis.plan_diff import PlanDiff

        if not isinstance(other, data.Plan):
            raise WorkbenchError(wrong_type("other", other, "a `Plan`"), ['write `plan.diff(plan.recipe("megatron"))`, say'])
        return PlanDiff(analyze(self), analyze(other))

    def search(self, *, workers: int | None = None, cluster: str | None = None, **wanted: Any) -> "SearchResult":
        """Search for the best plan of this plan's program: `plan.search(devices=256, hardware="TPU v5p", within=60)`.

        The layout, the mesh, ZeRO, rematerialisation, stages, schedule and micro-batches are chosen; `pins`, `at_most`, `objective` and the
        choices are arguments of `search.find_plans.find_plans` and `search.make_space.make_space`. `workers` processes of this machine
        answer, or a Ray `cluster`. `print` what comes back; its `best` is a plan. Raises `SearchError`.
        """
        from functools import partial

        from workbench.analysis.verify_plan import Compilers
        from workbench.engine import compile_plan, open_answerer, partition_plan
        from workbench.search.find_plans import find_plans

        answerer = partial(open_answerer, workers=workers, cluster=cluster)
        return find_plans(self, open_answerer=answerer, compilers=Compilers(partition_plan, compile_plan), **wanted)

    def latency_front(self, batches: Sequence[int], hardware: Sequence[str | Hardware] = (), **more: Any) -> "LatencyFront":
        """Latency and throughput of this plan's step of decoding, for each of `batches` on each of `hardware`, and which are on the front:
        `plan.latency_front([1, 8, 64], ["TPU v5e 2x2", "TPU v5e 4x4"])`. `print` it.

        A program that is not of the zoo needs `make(batch)`, which builds it. Raises `SearchError` for a program that is no step of
        decoding.
        """
        from workbench.search.decode_front import latency_front

        return latency_front(self, batches, hardware, **more)

    def save(self, path: str | Path) -> None:
        """Write the plan document (`*.plan.json`); `workbench.load(path)` reads it."""
        from workbench.documents import save_plan

        save_plan(self, path)

    def export(self) -> str:
        """A short JAX script that shards the same program in the same way."""
        from workbench.documents import export_script

        return export_script(self)

    def to_chrome_trace(self, measurement: "Measurement | None" = None, tier: str = "planned") -> str:
        """The step over time as JSON for ui.perfetto.dev: predicted, beside it as compiled where the `tier` is that (`report`), and, of
        `plan.run()`, measured. Raises `WorkbenchError` without hardware and measurement."""
        from workbench.documents.export.chrome_trace import chrome_trace

        return chrome_trace(self.report(tier), measurement)

    def export_file(self, path: str | Path, form: str = "", measurement: "Measurement | None" = None) -> Path:
        """Write the plan for others, and return where: `report.html`, one page to mail; `step.trace.json`, for Perfetto; `board.png` or
        `.svg`, a picture of the board; `.py`, the script. `form` names one of `visualize.exports.find_export` where the ending does not.
        Raises `WorkbenchError` for another ending, and where nothing can be written."""
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
    """The plan with the methods for users; a plan that has them is returned as it is."""
    if isinstance(plan, Plan):
        return plan
    public = object.__new__(Plan)
    public.__dict__.update(plan.__dict__)  # a legal plan: nothing is checked again
    return public


def load(path: str | Path, allow: str | Iterable[str] = ()) -> Plan:
    """Read a plan document; `allow="mine"` lets it name programs of the module `mine`, which is then imported.

    Errors are those of `documents.parse_plan`, and `DocumentError` if the file cannot be read.
    """
    from workbench.documents import load_plan

    return as_public(load_plan(path, allow))


def plan_config(config: str | Path, on: str | Hardware, **options: Any) -> "ClusterAnswer":
    """Whether a model fits on a cluster, how long it takes there, and its fastest, smallest and cheapest layouts, each of them a plan:
    `print(wb.plan_config("config.json", "64 H100", tokens="2T"))`.

    `config` is a Hugging Face `config.json`, the folder that holds one, or a preset of the zoo. Options and errors are those of
    `models.sizing.plan_config.plan_config`.
    """
    from workbench.models.sizing.plan_config import plan_config

    return plan_config(config, on, plan_class=Plan, **options)
