"""Plans of parallel layouts, and their figures from the planner."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from workbench.analysis.analyze import analyze
from workbench.analysis.prediction_intervals import residuals
from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.core.text_tables import count_text
from workbench.cost.estimate import estimate
from workbench.errors import RecipeError, WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.models.sizing.candidate_layouts import Outline, ParallelLayout
from workbench.models.sizing.cluster_question import ClusterQuestion
from workbench.models.sizing.nearest_program import nearest_program
from workbench.pipeline.balance import apply_edit
from workbench.pipeline.pipeline_report import pipeline_report
from workbench.plan.plan import Plan
from workbench.recipes import find_recipe
from workbench.reports.figure_ranges import KERNELS, STEP, Range
from workbench.reports.report import Report
from workbench.units import format_seconds

ESTIMATED, PLANNED = "estimated", "planned"


@dataclass
class LayoutPlanner:
    """The plans of one question, of a class of plans. It keeps the programs that it has built, by what they recompute and how
    often a head of keys and values is there."""

    question: ClusterQuestion
    plan_class: type[Plan] = Plan
    programs: dict[tuple[str, int], Program] = field(default_factory=dict)

    def program(self, recompute: str, model: int = 1) -> Program:
        """The program for a tensor-parallel axis of so many devices."""
        architecture, workload = self.question.architecture, self.question.workload
        key = recompute, max(1, model // architecture.kv_heads) if workload.copies_kv_heads(architecture) else 1
        if key not in self.programs:
            self.programs[key] = nearest_program(architecture, workload, *key)
        return self.programs[key]

    def plan(self, choice: ParallelLayout, hardware: Hardware) -> Plan:
        """Return the plan of a layout on hardware with as many devices. Raises `WorkbenchError` if it is illegal."""
        decodes = self.question.workload.is_inference
        mesh = choice.mesh.replace("stage:1", "").strip() if decodes else choice.mesh
        pipeline = None if decodes else f"stages:{choice.stages} micro_batches:{choice.micro_batches} schedule:1f1b remat:never"
        name = f"{self.question.name} on {hardware}"
        plan = self.plan_class(self.program(choice.recompute, choice.model), mesh or "data:1", "", name, hardware, pipeline=pipeline)
        plan = apply_recipes(plan, _recipes_of(choice, decodes))
        return plan if decodes or not choice.splits_stream else _with_sequence_parallel(plan)

    def evaluate(self, choice: ParallelLayout, hardware: Hardware) -> "PlannedLayout":
        """Return the layout with the planner's figures. Raises `WorkbenchError` if it is refused."""
        plan = self.plan(choice, hardware)
        if plan.pipeline is not None:
            staged = pipeline_report(plan)
            return PlannedLayout(choice, hardware, staged.seconds, max(staged.simulated.peaks), PLANNED, plan)
        estimated = estimate(plan)
        assert estimated.step_time is not None  # the plan has hardware
        return PlannedLayout(choice, hardware, estimated.step_time.total, estimated.memory.peak, PLANNED, plan)


def apply_recipes(plan: Plan, names: Iterable[str]) -> Plan:
    """Apply recipes to a plan in order. Raises `RecipeError` if one does not apply."""
    for name in names:
        plan = apply_edit(plan, find_recipe(name).edit(plan))
    return plan


def _recipes_of(choice: ParallelLayout, decodes: bool) -> list[str]:
    recipes = ["data_parallel"] if choice.data > 1 else []
    recipes += ["expert_parallel"] if choice.expert > 1 else []
    recipes += ["context_parallel"] if choice.context > 1 else []
    recipes += ["megatron"] if choice.model > 1 else []
    return recipes if decodes or not choice.zero else [*recipes, choice.zero]


def _with_sequence_parallel(plan: Plan) -> Plan:
    try:
        return apply_recipes(plan, ["sequence_parallel"])
    except RecipeError:
        return plan


@dataclass(frozen=True)
class PlannedLayout:
    """A layout with planned or outlined figures: `seconds` per step, `memory` in bytes on the fullest device."""

    choice: ParallelLayout
    hardware: Hardware
    seconds: float
    memory: float
    tier: str
    plan: Plan | None = None

    @property
    def devices(self) -> int:
        return self.choice.devices

    @property
    def fits(self) -> bool:
        return self.memory <= self.hardware.chip.memory

    @property
    def summary(self) -> str:
        """`8 devices, 1.20 s a step (estimated)`."""
        tier = " (estimated)" if self.tier == ESTIMATED else ""
        return f"{count_text(self.devices, 'device')}, {format_seconds(self.seconds)} a step{tier}"

    @property
    def price(self) -> float:
        """Dollars per step; device-seconds without a known price, which gives the same order."""
        hourly = self.hardware.hourly_price
        return self.seconds * (self.devices if hourly is None else hourly / 3600)

    @cached_property
    def report(self) -> Report | None:
        """The report of the plan, for its fullest stage; `None` if it was not planned."""
        if self.plan is None:
            return None
        try:
            return analyze(self.plan).shown
        except WorkbenchError:
            return None

    @property
    def by_role(self) -> Mapping[Role, int]:
        return self.report.memory.by_role if self.report else {}

    @cached_property
    def step_range(self) -> tuple[Range, str] | None:
        """Range of the step time, with its source; `None` if not planned or without known errors."""
        if self.tier != PLANNED:
            return None
        platform = self.hardware.chip.platform
        if self.report is not None and STEP in self.report.ranges and self.plan is not None and self.plan.pipeline is None:
            return self.report.ranges[STEP], "nine in ten compiled programs"
        if (errors := residuals().get((KERNELS, PLANNED, platform))) is not None:
            source = f"kernel times of {errors.cases} compiled programs"
            return Range(self.seconds * errors.low, self.seconds * errors.high), source
        plan = self.plan  # the published runs are of training, none of them in float8
        trains = plan is not None and plan.pipeline is not None and not plan.program.precision.products
        if trains and (runs := published_runs().get(platform)) is not None:
            source = f"{runs['cases']} published runs on A100 and H100, without a fit"
            return Range(self.seconds * runs["low"], self.seconds * runs["high"]), source
        return None


@cache
def published_runs() -> Mapping[str, Any]:
    """Ratios of measured to planned step times by platform, read from `published_runs.toml`."""
    return tomllib.loads(Path(__file__).with_name("published_runs.toml").read_text(encoding="utf-8"))


def estimated_layout(outline: Outline, hardware: Hardware) -> PlannedLayout:
    return PlannedLayout(outline.choice, hardware, outline.seconds, outline.memory, ESTIMATED)
