"""Verify a plan with XLA's partitioner and then its compiler: step time and memory in three tiers.

`verify_plan` waits for both. A board runs them in the background and uses `partitioned_report`,
`figures_of_partitioned` and `figures_of_compiled`.
"""

from collections.abc import Callable
from typing import NamedTuple

from workbench.analysis.analyze import analyze
from workbench.analysis.compiled_report import with_compiled
from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.diagnostic import DOES_NOT_FIT
from workbench.reports.partitioned import Partitioned
from workbench.reports.report import Report
from workbench.reports.verified_plan import TierFigures, VerifiedPlan

NO_TIME = "No step time: the plan has no hardware."
NOT_ESTIMATED = "The compiler gives no times for {platform}; only XLA:TPU estimates kernel times."
MICRO_BATCHES = "The programs of the step are compiled separately: memory is compiled, the step time stays planned."
STAGES = "The stages are compiled separately: memory of the fullest stage is compiled, the step time stays planned."


class Compilers(NamedTuple):
    """The engine's functions for XLA's partitioner and compiler, passed in because the engine imports this package."""

    partition: Callable[[Plan], Partitioned]
    compile: Callable[[Plan], Compiled]


def verify_plan(plan: Plan, title: str, planned: TierFigures, compilers: Compilers) -> VerifiedPlan:
    """Partition and compile a plan, each in a worker process; a rejection is recorded with the compiler's message."""
    partitioned, report = ask_partitioner(plan, compilers)
    return VerifiedPlan(plan, title, planned, partitioned, ask_compiler(plan, report, compilers))


def ask_compiler(plan: Plan, report: Report | None, compilers: Compilers) -> TierFigures:
    """Return the compiled figures of a plan; `report` is the partitioned report, if available."""
    try:
        return figures_of_compiled(report or analyze(plan), compilers.compile(plan))
    except WorkbenchError as error:
        return refused(error)


def ask_partitioner(plan: Plan, compilers: Compilers) -> tuple[TierFigures, Report | None]:
    """Return the partitioned figures and report of a plan, or the reason why there are none."""
    if reason := why_planned(plan):
        return TierFigures(reason=reason), None
    try:
        report = partitioned_report(plan, compilers.partition(plan))
    except WorkbenchError as error:
        return refused(error), None
    return figures_of_partitioned(report), report


def partitioned_report(plan: Plan, answer: Partitioned) -> Report:
    """Return the plan's report with the partitioner's result. Raises `PartitionError` if Shardy rejects the plan."""
    return analyze(plan, answer=answer)


def figures_of_partitioned(report: Report) -> TierFigures:
    """Return the figures of a partitioned report; with a scheduled program, memory and kernels are the compiler's."""
    assert report.partitioned is not None, "its collectives are XLA's"
    seconds = None if report.step_time is None else report.step_time.total
    reason = _no_room(report) or ("" if seconds is not None else NO_TIME)
    return TierFigures(seconds, report.memory.peak, reason, compiler=report.partitioned.compiler)


def figures_of_compiled(report: Report, compiled: Compiled) -> TierFigures:
    """Return the compiled figures; `report`, planned or partitioned, provides the time of communication."""
    if compiled.stages:
        reason = STAGES if len(compiled.stages) > 1 else MICRO_BATCHES
        return TierFigures(memory=compiled.memory.peak, reason=reason, compiler=compiled.compiler)
    combined = with_compiled(report, compiled)
    platform = combined.hardware.chip.platform if combined.hardware else ""
    unknown = NOT_ESTIMATED.format(platform="GPUs" if platform == "cuda" else "CPUs") if platform else NO_TIME
    seconds = combined.step_time.total if combined.step_time is not None and combined.has_compiled_times else None
    return TierFigures(
        seconds, compiled.memory.peak, _no_room(combined) or ("" if seconds is not None else unknown), compiler=compiled.compiler
    )


def refused(error: WorkbenchError) -> TierFigures:
    return TierFigures(reason=error.message, ways_out=error.ways_out)


def _no_room(report: Report) -> str:
    return next((diagnostic.message for diagnostic in report.diagnostics if diagnostic.kind == DOES_NOT_FIT), "")


# Plans that XLA's partitioner cannot process keep their planned figures.

PIPELINED_REASON = "A plan with a pipeline stays planned: XLA's partitioner does not run on separate stage programs."
MICRO_BATCHES_REASON = "A step in micro-batches stays planned: XLA's partitioner does not run on a sequence of programs."
ONE_DEVICE_REASON = "One device needs no partitioning."


def why_planned(plan: Plan) -> str:
    """Return why XLA's partitioner cannot process a plan; empty if it can."""
    if plan.pipeline is not None:
        return PIPELINED_REASON if plan.pipeline.stages > 1 else MICRO_BATCHES_REASON
    is_tpu = plan.hardware is not None and plan.hardware.chip.platform == "tpu"  # the TPU compiler also gives memory
    return ONE_DEVICE_REASON if plan.mesh.size == 1 and not is_tpu else ""
