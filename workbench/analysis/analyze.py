"""`analyze` turns a plan into a report. Pure and deterministic: nothing is executed or retraced."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

from workbench.analysis.compiled_report import with_compiled
from workbench.analysis.conflict_remedies import resolving_edits
from workbench.analysis.diagnose import diagnose
from workbench.analysis.diagnose_pipeline import with_pipeline
from workbench.analysis.prediction_intervals import has_published_runs, interval_for, ranges_of
from workbench.analysis.remedies import find_remedies
from workbench.cost.estimate import Estimate, estimate
from workbench.cost.kernel_graph import graph_of
from workbench.cost.step_flops import list_dots
from workbench.cost.timeline_events import timeline
from workbench.cost.value_records import kernel_list, list_reshards, list_values
from workbench.errors import PipelineError, WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.pipeline.balance import apply_edit
from workbench.pipeline.make_stage_reports import stage_reports
from workbench.pipeline.pipeline_report import pipeline_report
from workbench.pipeline.staged_program import as_spmd_program
from workbench.plan.edits import Edit, SetHardware
from workbench.plan.plan import Plan
from workbench.propagation import padding_list, propagation_of, source_annotations
from workbench.reports.diagnostic import Diagnostic
from workbench.reports.kernel import Graph
from workbench.reports.partitioned import Partitioned
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Details, Report
from workbench.reports.reshard import Remedy, Reshard


def analyze(plan: Plan, hardware: Hardware | None = None, answer: Partitioned | None = None) -> Report:
    """Return the report of a plan, with the step time if the hardware is known.

    With the partitioner's `answer`, its collectives and all dependent figures replace the planned ones; if the
    hardware's own compiler gave it, also memory and kernels. A pipeline with `engine:spmd` is planned as its own
    program, without `answer`. Raises `PartitionError` if Shardy rejects the plan.
    """
    if plan.pipeline is None or plan.pipeline.engine != "spmd":
        return _analyze(plan, hardware, answer)
    try:
        run = as_spmd_program(plan)
    except PipelineError:  # reported in the notes
        return _analyze(plan, hardware, None)
    return one_program_report(plan, _analyze(run, hardware, None), lambda: _analyze(plan, hardware, None))


def _analyze(plan: Plan, hardware: Hardware | None, answer: Partitioned | None) -> Report:
    estimated = estimate(plan, hardware, answer)
    report = Report(
        plan=plan,
        arguments=estimated.arguments,
        results=estimated.results,
        collectives=estimated.collectives,
        memory=estimated.memory,
        flops=estimated.flops,
        traffic=estimated.traffic,
        kernels=int(estimated.kernels.times.sum()),
        host_traffic=estimated.host_traffic,
        step_time=estimated.step_time,
        hardware=estimated.hardware,
        partitioned=answer,
        details=planned_details(estimated),
    )
    report = _with_calibration(report)
    report = diagnose(report, estimated.planned, estimated.partitioned.edges)  # edits are compared under Shardy's propagation
    report = report if plan.pipeline is None else _of_pipelined_step(report)
    return with_compiled(report, answer.scheduled) if answer is not None and answer.scheduled is not None else report


def _of_pipelined_step(report: Report) -> Report:
    """Use the pipelined step's figures: one device of the fullest stage, operations of all; unchanged if impossible."""
    if report.staged_pipeline is None:
        return report
    stages, fullest = report.stages, report.fullest
    flops = replace(
        report.flops,
        unique=sum(stage.flops.unique for stage in stages),
        per_device=sum(stage.flops.per_device for stage in stages) // len(stages),
    )
    figures = {name: getattr(fullest, name) for name in ("collectives", "memory", "traffic", "kernels", "step_time")}
    pipelined = replace(report, flops=flops, **figures)
    vars(pipelined).update(pipeline=report.pipeline, _stages=stages)  # independent of the replaced fields
    return pipelined


def _with_calibration(report: Report) -> Report:
    """Mark the step time as *not calibrated* if the runtime has published runs, but none like it."""
    time, hardware = report.step_time, report.hardware
    if time is None or hardware is None or not has_published_runs(hardware) or interval_for(report) is not None:
        return report
    return replace(report, step_time=replace(time, calibrated="", shares_of=""))


# A pipeline of `engine:spmd` is reported as the one program that all devices run, the shifting buffer.
#
# Intermediate values, propagation and source annotations remain those of the traced program, which users edit.


def one_program_report(plan: Plan, ran: Report, analyze_traced: Callable[[], Report]) -> Report:
    """Return `ran`, the report of the SPMD program, as the report of `plan`."""
    traced = cache(lambda: analyze_traced().details)

    def of_traced(name: str, *given: Any) -> Any:
        return getattr(traced(), name)(*given)

    applies = partial(_applies, plan)
    details = replace(
        ran.details,
        stages=Details.stages,
        ranges=Details.ranges,
        **{name: partial(of_traced, name) for name in ("values", "pipeline", "source_annotations", "propagation", "resolving_edits")},
        reshards=lambda _: tuple(replace(reshard, find_remedies=partial(_applicable, reshard, applies)) for reshard in ran.reshards),
        notes=partial(_notes_of_one_program, applies),
    )
    return replace(ran, plan=plan, is_one_program=True, details=details)


def _applicable(found: Reshard, applies: Callable[[Edit], bool], _: Reshard) -> tuple[Remedy, ...]:
    return tuple(remedy for remedy in found.remedies if applies(remedy.edit))


def _notes_of_one_program(applies: Callable[[Edit], bool], report: Report) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of the running program with the edits that apply to the plan, and those of its pipeline."""

    def find_edits(found: Diagnostic) -> tuple[Edit, ...]:
        return tuple(filter(applies, found.edits))

    diagnostics = tuple(replace(diagnostic, known=(), find=partial(find_edits, diagnostic)) for diagnostic in report.diagnostics)
    return with_pipeline(replace(report, diagnostics=diagnostics))


def _applies(plan: Plan, edit: Edit) -> bool:
    """Return whether an edit of the running program is valid for the plan, which has no shifting buffer."""
    try:
        apply_edit(plan, edit)
    except WorkbenchError:
        return False
    return True


# The longer lists of a report, computed from its estimate on first use.


def planned_details(estimate: Estimate) -> Details:
    """Return the details of a plan's estimate."""
    plan, program, partitioned, kernels = estimate.plan, estimate.plan.program, estimate.partitioned, estimate.kernels
    simulated, times = estimate.simulated, estimate.times
    find = partial(find_remedies, analyze)
    return Details(
        values=partial(list_values, estimate),
        memory_curve=estimate.over_step.curve,
        alive=estimate.over_step.alive,
        alive_at=estimate.over_step.alive,
        products=partial(list_dots, program, plan.mesh, partitioned),
        timeline=lambda: None if simulated is None else timeline(program, partitioned, kernels, simulated),
        kernels=lambda: () if times is None else kernel_list(program, partitioned, kernels, times),
        graph=partial(_graph_of, estimate),
        pipeline=partial(_pipeline_of, estimate),
        stages=_stages_of,
        source_annotations=partial(source_annotations, program),
        padding=partial(padding_list, plan, partitioned),
        propagation=partial(propagation_of, plan, partitioned.dims),
        reshards=lambda report: tuple(replace(reshard, find_remedies=partial(find, report)) for reshard in list_reshards(estimate)),
        notes=partial(_notes_of, estimate),
        ranges=ranges_of,
        resolving_edits=resolving_edits,
    )


def _graph_of(estimate: Estimate) -> Graph:
    plan, times = estimate.plan, estimate.times
    seconds = () if times is None else times.busy + times.launch
    return graph_of(plan.program, estimate.partitioned, estimate.kernels, plan.mesh, seconds, estimate.simulated)


def _pipeline_of(estimate: Estimate) -> PipelineReport | None:
    plan, hardware = estimate.plan, estimate.hardware
    if plan.pipeline is None:
        return None
    return pipeline_report(plan if plan.hardware == hardware else SetHardware(hardware).apply(plan))


def _stages_of(report: Report) -> tuple[Report, ...]:
    """Raises `PipelineError` also if the pipeline must be one program and cannot: no device would run its stages."""
    planned = report.pipeline
    if planned is not None and planned.is_in_step:
        as_spmd_program(report.plan)
    return (report,) if planned is None else stage_reports(report, planned, partial(find_remedies, analyze))


def _notes_of(estimate: Estimate, report: Report) -> tuple[Diagnostic, ...]:
    pipeline = estimate.plan.pipeline
    return report.diagnostics if pipeline is None else with_pipeline(report, estimate.flops.duplication / pipeline.stages)
