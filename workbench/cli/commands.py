"""Implementations of the commands about one plan."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench import engine
from workbench.analysis.analyze import analyze
from workbench.analysis.compiled_report import with_compiled
from workbench.analysis.minimal_layout import minimal_annotations
from workbench.analysis.plan_diff import PlanDiff
from workbench.analysis.tier_comparison import Comparison
from workbench.cli.catalogue_command import use_hardware_file
from workbench.cli.event_log import EventLog, event_log
from workbench.cli.plan_arguments import ATTACHED, hardware_of, plan_of, plan_on_the_cpu
from workbench.cli.shared_arguments import allowed_modules
from workbench.documents import (
    comparison_record,
    compiled_record,
    conflict_record,
    explanation_record,
    hardware_entry,
    load_plan,
    measurement_record,
    plan_diff_record,
    report_record,
)
from workbench.errors import EngineError, PipelineError
from workbench.pipeline.balance import apply_edit
from workbench.plan.edits import SetHardware
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement, measurement_text
from workbench.reports.report import Report
from workbench.reports.run_events import Progress, RunEvent, RunListener, StepDone
from workbench.session.figure_tiers import settled_report
from workbench.tracing.jax_backends import force_cpu_backend
from workbench.units import format_seconds

LAUNCHERS = ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "WORKBENCH_PROCESSES")  # number of processes, set by known launchers


def report(options: argparse.Namespace) -> None:
    plan = _on_kept_hardware(plan_on_the_cpu(options))
    report, why_planned = (analyze(plan), "") if options.planned else settled_report(plan, engine.partition_plan)
    if options.compiled:
        report = with_compiled(report, engine.compile_plan(plan, on_progress=_stage_printer()))
    if options.stage is not None:
        report, why_planned = stage_of(report, options.stage), ""
    if options.json:
        print(json.dumps({**report_record(report), "why_planned": why_planned or None}, indent=1))
        return
    print(report)
    if why_planned:
        print(f"\nThese are planned figures. {why_planned}")
    if report.hardware is None:
        hint = f"Step times need hardware: add --hardware {ATTACHED} for this machine, which is measured once."
        print(f"\n{hint}", file=sys.stderr)  # a script that reads the report gets nothing else


def _on_kept_hardware(plan: Plan) -> Plan:
    """Put a plan without hardware on the attached devices if they have been measured."""
    kept = engine.kept_calibration(plan.mesh.size) if plan.hardware is None else None
    return plan if kept is None else plan.updated(hardware=kept)


def stage_of(report: Report, stage: int) -> Report:
    """The report of one stage. Raises `PipelineError` if the plan has no such stage."""
    if report.is_one_program:
        ways_out = ["leave --stage out: the report covers every device", "use engine:mpmd"]
        raise PipelineError(f"All stages of {report.plan.name} run one program, so there is no report for stage {stage} alone.", ways_out)
    if report.is_of_devices:
        raise PipelineError(
            f"{report.plan.name} has no pipeline, so it has no stage {stage}.", ["leave --stage out", "give it a --pipeline"]
        )
    if not 0 <= stage < len(report.stages):
        count = len(report.stages)
        raise PipelineError(f"The pipeline has {count} stages; there is no stage {stage}.", [f"give a stage from 0 to {count - 1}"])
    return report.stages[stage]


def run(options: argparse.Namespace) -> None:
    # A launcher's other processes must be joined before the plan is built: building it may touch JAX.
    distributed = options.distributed or any(int(os.environ.get(name) or 1) > 1 for name in LAUNCHERS)
    measurement, plan = _run_distributed(options) if distributed else _run_here(options)
    if measurement is None:
        return  # only process 0 prints
    here = plan.updated(hardware=measurement.hardware, axis_assignment=None)  # the prediction for this machine
    print(json.dumps(measurement_record(measurement), indent=1) if options.json else measurement_text(measurement, analyze(here)))
    if measurement.is_wrong:
        of_value = ["shard fewer dimensions of the first wrong value"] if measurement.first_wrong else []
        ways_out = ["see the warnings of `workbench report`", *of_value, "report it to the JAX project"]
        raise EngineError("This plan computes a wrong result.", ways_out)


def _run_here(options: argparse.Namespace) -> tuple[Measurement, Plan]:
    """Run in a worker process, so that running out of memory becomes an error message."""
    with event_log(options) as log:
        plan = plan_on_the_cpu(options)
        log.started("run", plan.name)
        tell = _both(_print_progress, log)
        measurement = engine.run_plan(plan, steps=options.steps, on_progress=tell, check=options.check, profile=options.profile)
        log.measured(measurement)
    return measurement, plan


def _run_distributed(options: argparse.Namespace) -> tuple[Measurement | None, Plan]:
    """Run in this process, one of several started by a launcher; only process 0 prints."""
    with _libraries_off_stdout():
        process = engine.start_distributed()
        with event_log(options, process) as log:
            plan = plan_of(options)
            log.started("run", plan.name, process, engine.count_processes())
            tell = _both(_say_nothing if process else _print_progress, log)
            measurement = engine.execute(plan, steps=options.steps, on_event=tell, check=options.check, profile=options.profile)
            log.measured(measurement)
    return (None if process else measurement), plan


def _both(tell: RunListener, log: EventLog) -> RunListener:
    """Combine printing and logging of events."""

    def hear(event: RunEvent) -> None:
        tell(event)
        log.hear(event)

    return hear


@contextmanager
def _libraries_off_stdout() -> Iterator[None]:
    """Redirect the stdout of libraries to stderr (gloo lists its peers), so that `--json` stays JSON."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


def _print_progress(event: RunEvent) -> None:
    """Print one line per stage and about ten lines over the steps."""
    match event:
        case Progress(stage=stage):
            print(f"{stage} ...", file=sys.stderr, flush=True)
        case StepDone(step=step, of=of) if step in (1, of) or step % max(1, of // 10) == 0:
            loss = "" if event.loss is None else f", loss {event.loss:.4f}"
            print(f"step {step} of {of}: {format_seconds(event.seconds)}{loss}", file=sys.stderr, flush=True)


def _say_nothing(event: RunEvent) -> None:
    """Progress of a process that prints nothing."""


def compile_(options: argparse.Namespace) -> None:
    hlo_file = None if options.hlo is None else str(Path(options.hlo).absolute())
    with event_log(options) as log:
        plan = plan_on_the_cpu(options)
        log.started("compile", plan.name)
        tell = _both(_stage_printer(), log)
        compiled = engine.compile_plan(plan, on_progress=tell, time_limit=options.time_limit, keep=not options.no_cache, hlo_file=hlo_file)
        log.compiled(compiled, _compiled_step(plan, compiled))
    print(json.dumps(compiled_record(compiled), indent=1) if options.json else compiled)


def _compiled_step(plan: Plan, compiled: Compiled) -> float | None:
    """Step seconds with the compiler's kernel times; `None` if it has none."""
    return None if compiled.compute_seconds is None or compiled.stages else with_compiled(analyze(plan), compiled).seconds


def compare(options: argparse.Namespace) -> None:
    plan = plan_on_the_cpu(options)
    measured = engine.run_plan(plan, steps=options.steps, on_progress=_print_progress) if options.run else None
    compiled = engine.compile_plan(plan, on_progress=_stage_printer(), time_limit=options.time_limit)
    comparison = Comparison(analyze(plan), compiled, measured)
    print(json.dumps(comparison_record(comparison), indent=1) if options.json else comparison)


def diff(options: argparse.Namespace) -> None:
    force_cpu_backend()
    use_hardware_file(options)
    plans = [load_plan(path, allowed_modules(options)) for path in (options.before, options.after)]
    if options.hardware is not None or options.link:
        plans = [apply_edit(plan, SetHardware(hardware_of(options, plan.hardware))) for plan in plans]
    found = PlanDiff(*(analyze(plan) for plan in plans))
    print(json.dumps(plan_diff_record(found), indent=1) if options.json else found)


def explain(options: argparse.Namespace) -> None:
    if options.value is None and options.model:  # there is no PLAN.json then
        options.value, options.plan = options.plan, None
    plan = plan_on_the_cpu(options)
    report = analyze(plan)
    replay = report.propagation
    if options.fewest:
        fewest = minimal_annotations(plan)
        print(json.dumps({"layout": str(fewest.layout), "is_fewest": fewest.is_fewest}) if options.json else fewest)
    elif options.steps:
        print(replay)
    elif options.json:
        found = explanation_record(report, options.value) if options.value else [conflict_record(replay, each) for each in replay.conflicts]
        print(json.dumps(found, indent=1))
    else:
        print(report.explain(options.value or ""))


def _stage_printer() -> RunListener:
    """Print one line per stage, without heartbeats."""
    stages: set[str] = set()

    def tell(event: RunEvent) -> None:
        if isinstance(event, Progress) and event.stage not in stages:
            stages.add(event.stage)
            _print_progress(event)

    return tell


def export(options: argparse.Namespace) -> None:
    from workbench.visualize.exports.file_exports import export_bytes, export_file, find_export, form_of

    form = options.form or (form_of(Path(options.output)) if options.output else "script")
    find_export(form)  # refused before anything is traced
    plan = plan_on_the_cpu(options)
    measured = engine.run_plan(plan, steps=options.steps, on_progress=_print_progress) if options.run else None
    report = analyze(plan) if options.planned else settled_report(plan, engine.partition_plan)[0]
    report = with_compiled(report, engine.compile_plan(plan, on_progress=_stage_printer())) if options.compiled else report
    if options.output is not None:
        export_file(report, options.output, form, measured)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(export_bytes(report, form, measured))


def calibrate(options: argparse.Namespace) -> None:
    print(hardware_entry(engine.calibrate_here(options.devices), options.name), end="")
