"""Diagnose a pipeline: memory, balance, bubble and engine differences, with edits."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.pipeline_spec import BATCH, MAX_COUNT, PipelineSpec, first_remat, first_stages, plan_input_splits
from workbench.core.program import Program
from workbench.errors import PipelineError, WorkbenchError
from workbench.pipeline.balance import apply_edit, balance, program_blocks, verify_partition
from workbench.pipeline.pipeline_report import pipeline_report
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.stage_transfer import transfer_of
from workbench.pipeline.staged_program import as_spmd_program, spec_of
from workbench.plan.edits import Edit, SetPipeline
from workbench.plan.mesh_edits import ResizeAxis
from workbench.plan.plan import Plan
from workbench.reports.diagnostic import DOES_NOT_FIT, Diagnostic
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.tracing.stage_partition.stage_update import common_sums
from workbench.units import format_bytes, format_seconds

MIN_BALANCE = 0.9  # stages count as uneven below
MAX_BUBBLE, TARGET_BUBBLE = 0.2, 0.1  # report a larger bubble; suggest this one


def with_pipeline(report: Report, whole: float = 1.0) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of report and pipeline; `whole` is the unpipelined duplication on a stage's devices."""
    try:
        planned = report.pipeline
    except WorkbenchError as error:
        return (_diagnose_no_partition(report.plan, spec_of(report.plan), error), *report.diagnostics)
    if planned is None:
        return report.diagnostics
    plan = report.plan
    others = tuple(diagnostic for diagnostic in report.diagnostics if report.is_of_devices or diagnostic.kind != DOES_NOT_FIT)
    of_pipeline = (
        *_diagnose_unequal_layers(plan, planned.spec),
        *_diagnose_optimizer(plan, planned.spec),
        *(() if report.is_of_devices else _diagnose_memory(plan, planned)),
        *_diagnose_one_chunk(plan, planned.spec),
        *_diagnose_uneven_stages(plan, planned),
        *_diagnose_bubble(plan, planned),
        *(() if report.is_of_devices else _diagnose_small_micro_batches(report, whole)),
    )
    return (*of_pipeline, *_diagnose_recomputation(planned.spec), *others)


def _diagnose_no_partition(plan: Plan, spec: PipelineSpec, error: WorkbenchError) -> Diagnostic:
    edits: list[Edit] = [SetPipeline(replace(spec, boundaries=()), "boundaries by balance")] if spec.boundaries else []
    with suppress(WorkbenchError):  # not traceable: no edit of the pipeline helps
        most = len(program_blocks(plan.program, spec.micro_batches)) // spec.chunks
        edits += [ResizeAxis(spec.axis, most)] if 1 <= most < spec.stages else []
    edits = [*_accepted_edits(plan, edits, _verify_stages), SetPipeline(None, "no pipeline")]
    return Diagnostic("cannot be cut", "pipeline", error.message, tuple(edits))


def _diagnose_unequal_layers(plan: Plan, spec: PipelineSpec) -> Iterator[Diagnostic]:
    try:
        if spec.engine == "spmd":
            as_spmd_program(plan)
    except WorkbenchError as error:
        yield Diagnostic("not in step", "pipeline", error.message, (SetPipeline(replace(spec, engine="mpmd"), "a program for each stage"),))


def _diagnose_optimizer(plan: Plan, spec: PipelineSpec) -> Iterator[Diagnostic]:
    """Yield a warning for an optimizer that a run would refuse; other runtimes may keep whole parameters on a stage."""
    problem = _optimizer_problem(plan.program) if spec.engine == "mpmd" and plan.program.step.training else ""
    if not problem:
        return
    edits: list[Edit] = [SetPipeline(None, "no pipeline")]
    remat = spec.remat if spec.remat in ("always", "never") else "always"
    if one_program := _try_replace(spec, engine="spmd", schedule="gpipe", chunks=1, boundaries=(), remat=remat):
        edits = [*_accepted_edits(plan, [SetPipeline(one_program, "one program for all stages")], as_spmd_program), *edits]
    yield Diagnostic("not run in stages", "pipeline", f"The figures are valid, but a run is refused. {problem}", tuple(edits))


@cache_with_program(1)
def _optimizer_problem(program: Program) -> str:
    """Why stages cannot run the optimizer of a training step by themselves; empty if they can."""
    try:
        common_sums(program)
    except PipelineError as error:
        return error.message
    return ""


def _accepted_edits(plan: Plan, edits: Iterable[Edit], check: Callable[[Plan], object]) -> list[Edit]:
    """Return the edits that apply to the plan and after which `check` raises no error."""
    accepted = []
    for edit in edits:
        with suppress(WorkbenchError):
            check(apply_edit(plan, edit))
            accepted.append(edit)
    return accepted


def _verify_stages(plan: Plan) -> None:
    verify_partition(plan.program, spec_of(plan))


def _diagnose_memory(plan: Plan, planned: PipelineReport) -> Iterator[Diagnostic]:
    step, room = planned.simulated, planned.capacity
    for device, peak in enumerate(step.peaks):
        if not room or peak <= room:
            continue
        held = sum(step.costs[stage].resident for stage in step.stages_of(device))
        message = (
            f"A device of stage {device} would hold {format_bytes(peak)} at the peak ({format_bytes(held)} of parameters, gradients and "
            f"optimizer state, {format_bytes(peak - held)} for {step.in_flight(device)} micro-batches in flight) and has "
            f"{format_bytes(room)}: {peak / room:.2f} times as much."
        )
        yield Diagnostic(DOES_NOT_FIT, f"stage {device}", message, tuple(_suggest_less_memory(plan, planned, device)))


def _suggest_less_memory(plan: Plan, planned: PipelineReport, device: int) -> Iterator[SetPipeline]:
    """Yield remat, schedules of the same virtual stages, or smaller micro-batches that reduce this stage's memory."""
    spec, costs = planned.spec, planned.simulated.costs
    if first := _recompute_first_stages(plan, planned):
        yield SetPipeline(first, f"recompute on {first_stages(first.recomputing_stages)}")
    changes = [("recompute all micro-batches", {"remat": "always"})]
    changes += [(f"schedule {name}", {"schedule": name, "engine": "mpmd"}) for name in _FRUGAL_SCHEDULES]
    for about, change in changes:
        other = _try_replace(spec, **change)
        if other and other != spec and simulate(other, costs, transfer_of(plan)).peaks[device] < planned.simulated.peaks[device]:
            yield SetPipeline(other, about)
    if more := _with_micro_batches(plan, spec, spec.micro_batches + 1):
        yield SetPipeline(more, f"{more.micro_batches} micro-batches")


def _recompute_first_stages(plan: Plan, planned: PipelineReport) -> PipelineSpec | None:
    """Return the fitting pipeline with the fewest recomputing stages, set by the last stage that does not fit."""
    spec, step, room = planned.spec, planned.simulated, planned.capacity
    count = 1 + max(device for device, peak in enumerate(step.peaks) if peak > room)
    if not spec.recomputing_stages < count < spec.stages:
        return None
    other = _try_replace(spec, remat=first_remat(count, spec.stages))
    return other if other and max(simulate(other, step.costs, transfer_of(plan)).peaks) <= room else None


_FRUGAL_SCHEDULES = ("1f1b", "v_half", "v_min")  # the first with one chunk per device, the others with two

_ONE_CHUNK_EQUIVALENTS = {"interleaved": "1f1b", "circular": "gpipe"}  # breadth-first with one chunk is the same, too


def _diagnose_one_chunk(plan: Plan, spec: PipelineSpec) -> Iterator[Diagnostic]:
    """Yield a warning for an interleaved schedule with a single chunk, which has no effect."""
    alike = _ONE_CHUNK_EQUIVALENTS.get(spec.schedule)
    if alike is None or spec.chunks > 1 or spec.stages == 1:
        return
    message = f"With `chunks:1` schedule `{spec.schedule}` is `{alike}`: it is better only with several virtual stages on each device."
    two = _try_replace(spec, chunks=2, boundaries=())
    edits = _accepted_edits(plan, [SetPipeline(two, "2 chunks a stage")] if two is not None else [], _verify_stages)
    if not edits:
        most = len(program_blocks(plan.program, spec.micro_batches))
        why = f"make micro_batches a multiple of {spec.stages}" if two is None else f"there are {most} blocks, and two chunks need "
        message += f" Two chunks are impossible: {why}" + ("." if two is None else f"{2 * spec.stages}.")
    yield Diagnostic("one chunk", "pipeline", message, (*edits, SetPipeline(replace(spec, schedule=alike), f"schedule {alike}")))


def _diagnose_uneven_stages(plan: Plan, planned: PipelineReport) -> Iterator[Diagnostic]:
    if planned.balance >= MIN_BALANCE:
        return
    busy = planned.simulated.busy
    most = max(range(len(busy)), key=lambda device: busy[device])
    mean = sum(busy) / len(busy)
    longer = f"{busy[most] / mean:.2f} times as long as the mean stage"
    if not planned.nominal:
        longer = f"{format_seconds(busy[most])} a step and the mean stage {format_seconds(mean)}"
    message = f"Stage {most} works {longer}: the others wait, and the balance is {planned.balance:.0%}."
    better = _balance_stages(plan, planned)
    if better is None and _could_be_more_even(planned):
        message += " More balanced stages would send more, and the step would take longer."
    elif better is None:
        message += " Its blocks cannot be balanced better; use fewer stages or smaller blocks."
    edits = () if better is None else (SetPipeline(better.spec, "balance the stages"),)
    message += "" if better is None else f" With the best boundaries it is {better.balance:.0%}."
    yield Diagnostic("uneven stages", f"stage {most}", message, edits)


def _balance_stages(plan: Plan, planned: PipelineReport) -> PipelineReport | None:
    if not planned.spec.boundaries:
        return None
    balanced = pipeline_report(plan.updated(pipeline=replace(planned.spec, boundaries=())))
    return balanced if balanced.balance > planned.balance else None


def _could_be_more_even(planned: PipelineReport) -> bool:
    if planned.spec.boundaries:
        return False
    work = [block.work for block in planned.blocks]
    sizes = tuple(len(virtual_stage.blocks) for virtual_stage in planned.virtual_stages)
    return balance(work, planned.spec.virtual_stages).sizes(len(work)) != sizes


def _diagnose_bubble(plan: Plan, planned: PipelineReport) -> Iterator[Diagnostic]:
    """Yield a warning for a large bubble, which more micro-batches reduce: idle time is constant while work grows."""
    bubble, least, spec = planned.simulated.bubble, planned.least_bubble, planned.spec
    if bubble <= MAX_BUBBLE:
        return
    fill_share = bubble if least is None else min(least, bubble)
    sentence = f"The stages are idle for {bubble:.0%} of the step"
    if fill_share <= TARGET_BUBBLE:
        why = (
            f"{sentence}; equal stages and free transfers would leave {fill_share:.0%}: the cause is their balance and communication, "
            "not the pipeline fill."
        )
        yield Diagnostic("bubble", "pipeline", why)
        return
    need = int(-(-spec.micro_batches * fill_share * (1 - TARGET_BUBBLE) // ((1 - fill_share) * TARGET_BUBBLE)))
    more = _with_micro_batches(plan, spec, need)
    message = (
        f"{sentence} with {spec.micro_batches} micro-batches, {fill_share:.0%} while the pipeline fills and drains; {need} would reduce it "
        f"to {TARGET_BUBBLE:.0%}."
    )
    if more is None:
        message += " The batch does not divide further: use a larger batch or fewer stages."
    elif more.micro_batches != need:
        message += f" The batch divides into {more.micro_batches}."
    yield Diagnostic("bubble", "pipeline", message, () if more is None else (SetPipeline(more, f"{more.micro_batches} micro-batches"),))


def _diagnose_small_micro_batches(report: Report, whole: float) -> Iterator[Diagnostic]:
    """Yield a warning if micro-batches have fewer examples than the devices that share them, which duplicates work."""
    spec, worst = spec_of(report.plan), report.most(lambda each: each.flops.duplication)
    factor = worst.flops.duplication
    if factor < 1.01 or factor < 1.5 * whole:
        return
    sizes = report.plan.program.dims.get(BATCH, ())
    of = f" of {min(sizes) // spec.micro_batches:,} examples" if sizes else ""
    message = (
        f"A micro-batch{of} is too small to be sharded like the batch: the devices of stage {worst.stage} compute each product "
        f"{factor:.2f} times."
    )
    fewer = _try_replace(spec, micro_batches=max(spec.micro_batches // max(round(factor / whole), 1), 1))
    edits = (SetPipeline(fewer, f"{fewer.micro_batches} micro-batches"),) if fewer and fewer != spec else ()
    yield Diagnostic("duplicated work", "pipeline", message, edits)


def _with_micro_batches(plan: Plan, spec: PipelineSpec, count_wanted: int) -> PipelineSpec | None:
    """Return the pipeline with this or the next larger valid number of micro-batches, or else the largest one."""
    for count in (
        *range(count_wanted, min(4 * count_wanted, MAX_COUNT) + 1),
        *range(min(count_wanted, MAX_COUNT) - 1, spec.micro_batches, -1),
    ):
        with suppress(WorkbenchError):
            plan_input_splits(plan.program, count)
            return replace(spec, micro_batches=count)
    return None


def _try_replace(spec: PipelineSpec, **changes: object) -> PipelineSpec | None:
    with suppress(WorkbenchError):
        return replace(spec, **changes)  # type: ignore[arg-type]
    return None


def _diagnose_recomputation(spec: PipelineSpec) -> Iterator[Diagnostic]:
    if spec.engine == "spmd" and spec.remat == "except_last":
        message = (
            "Engine `spmd` runs the same code in every iteration, so it cannot skip recomputation for the last micro-batch: "
            "`remat:except_last` recomputes all of them, and the plan accounts for it."
        )
        edits = (
            SetPipeline(replace(spec, remat="always"), "recompute all micro-batches"),
            SetPipeline(replace(spec, remat="never"), "recompute none"),
        )
        yield Diagnostic("recomputation", "pipeline", message, edits)
