"""A plan asked of XLA's partitioner and then of its compiler: its step time and memory in three tiers. What a tier cannot say is said.

`verify_plan` waits for both. A board asks them itself, in the background, and reads their answers by `partitioned_report`,
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
    """The functions that ask XLA's partitioner and the compiler of the hardware: those of the engine, which stands above this package."""

    partition: Callable[[Plan], Partitioned]
    compile: Callable[[Plan], Compiled]


def verify_plan(plan: Plan, title: str, planned: TierFigures, compilers: Compilers) -> VerifiedPlan:
    """Ask XLA's partitioner and then the compiler, each in a worker process; a refusal is an answer, in the compiler's words."""
    partitioned, report = ask_partitioner(plan, compilers)
    return VerifiedPlan(plan, title, planned, partitioned, ask_compiler(plan, report, compilers))


def ask_compiler(plan: Plan, report: Report | None, compilers: Compilers) -> TierFigures:
    """What the compiler says of a plan; `report`: the partitioned one, if there is one."""
    try:
        return figures_of_compiled(report or analyze(plan), compilers.compile(plan))
    except WorkbenchError as error:
        return refused(error)


def ask_partitioner(plan: Plan, compilers: Compilers) -> tuple[TierFigures, Report | None]:
    """What XLA's partitioner says of a plan, with the report of its answer; why it was not asked, or refused the plan, where there is
    none."""
    if reason := why_planned(plan):
        return TierFigures(reason=reason), None
    try:
        report = partitioned_report(plan, compilers.partition(plan))
    except WorkbenchError as error:
        return refused(error), None
    return figures_of_partitioned(report), report


def partitioned_report(plan: Plan, answer: Partitioned) -> Report:
    """The plan's report with the partitioner's answer. Raises `PartitionError` where Shardy refuses the plan."""
    return analyze(plan, answer=answer)


def figures_of_partitioned(report: Report) -> TierFigures:
    """What XLA's partitioner says, whose answer the report has: its collectives, and the memory and time that follow; where the hardware's
    own compiler answered, the memory and kernels of its schedule."""
    assert report.partitioned is not None, "its collectives are XLA's"
    seconds = None if report.step_time is None else report.step_time.total
    reason = _no_room(report) or ("" if seconds is not None else NO_TIME)
    return TierFigures(seconds, report.memory.peak, reason, compiler=report.partitioned.compiler)


def figures_of_compiled(report: Report, compiled: Compiled) -> TierFigures:
    """What the compiler says of a plan whose `report` is planned or partitioned: what the fullest device holds; seconds where it estimates
    those of its kernels, with the planned time of what is sent."""
    if compiled.stages:
        reason = STAGES if len(compiled.stages) > 1 else MICRO_BATCHES
        return TierFigures(memory=compiled.memory.peak, reason=reason, compiler=compiled.compiler)
    found = with_compiled(report, compiled)
    platform = found.hardware.chip.platform if found.hardware else ""
    unknown = NOT_ESTIMATED.format(platform="GPUs" if platform == "cuda" else "CPUs") if platform else NO_TIME
    seconds = found.step_time.total if found.step_time is not None and found.has_compiled_times else None
    return TierFigures(
        seconds, compiled.memory.peak, _no_room(found) or ("" if seconds is not None else unknown), compiler=compiled.compiler
    )


def refused(error: WorkbenchError) -> TierFigures:
    """The figures of a tier that refused the plan."""
    return TierFigures(reason=error.message, ways_out=error.ways_out)


def _no_room(report: Report) -> str:
    return next((each.message for each in report.diagnostics if each.kind == DOES_NOT_FIT), "")


# Which plans XLA's partitioner is not asked about, and why: their figures stay planned.

PIPELINED_REASON = "A plan with a pipeline stays planned: XLA's partitioner does not run on separate stage programs."
MICRO_BATCHES_REASON = "A step in micro-batches stays planned: XLA's partitioner does not run on a sequence of programs."
ONE_DEVICE_REASON = "One device needs no partitioning."


def why_planned(plan: Plan) -> str:
    """Why XLA's partitioner cannot be asked about a plan; empty if it can."""
    if plan.pipeline is not None:
        return PIPELINED_REASON if plan.pipeline.stages > 1 else MICRO_BATCHES_REASON
    is_tpu = plan.hardware is not None and plan.hardware.chip.platform == "tpu"  # whose compiler also gives its memory
    return ONE_DEVICE_REASON if plan.mesh.size == 1 and not is_tpu else ""
