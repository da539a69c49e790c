"""The stage board as JSON; blocks and boundaries are separate from the columns, so a drag moves only blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from workbench.core.path_patterns import template
from workbench.core.pipeline_spec import ENGINES, PipelineSpec, first_stages, micro_batch_counts
from workbench.core.schedules import ALL_SCHEDULES, schedule_named
from workbench.errors import PipelineError, WorkbenchError
from workbench.pipeline.balance import Balance, evaluate_starts
from workbench.pipeline.staged_program import spec_of
from workbench.plan.plan import Plan
from workbench.reports.measurement import TaskTime
from workbench.reports.pipeline import PipelineReport, VirtualStage
from workbench.reports.report import Report
from workbench.units import format_bytes, format_seconds
from workbench.widgets.pipeline.pipeline_figures import timeline_block
from workbench.widgets.pipeline.stage_edits import PipelineStart, bucket_starts, list_starts, require_pipeline, shortage_text, stage_text
from workbench.widgets.tabs.table_blocks import Block, note_block

State = dict[str, Any]
MOST_CHUNKS = 8
_REMAT = {
    "always": ("always", "Every backward task recomputes its forward pass: least memory, a third more work."),
    "except_last": (
        "all but the last micro-batch",
        "The last micro-batch needs no recomputation, because its backward pass follows at once (GPipe).",
    ),
    "never": ("never", "All activations are kept: least work, most memory."),
}
_ENGINE = {
    "mpmd": ("one program a stage", "MPMD: a separate program per stage. Any schedule, unequal stages."),
    "spmd": ("one program for all", "SPMD: a shifting buffer over the stage axis. GPipe and circular; several hosts."),
}


def pipeline_blocks(report: Report, tasks: tuple[TaskTime, ...] = (), trial: PipelineReport | None = None) -> list[Block]:
    """Return the tab; `tasks` are measured, `trial` replaces the pipeline while a boundary is dragged."""
    if report.plan.pipeline is None:
        return [_stages_block(_empty(report.plan))]
    try:
        planned = trial or require_pipeline(report)
    except WorkbenchError as error:
        return [_stages_block({"kind": "broken", "problem": _problem(error), "controls": list(_controls(report.plan, None))})]
    return [_stages_block(_state(report.plan, planned)), timeline_block(planned, () if trial else tasks)]


def _stages_block(state: State) -> Block:
    return {**note_block(""), "stages": state}


def _empty(plan: Plan) -> State:
    try:
        starts = list_starts(plan)
    except WorkbenchError as error:
        about = "This program cannot be pipelined without changes."
        return {"kind": "none", "about": about, "problem": _problem(error), "button": None, "choices": []}
    if len(starts) > 1:
        return {
            "kind": "none",
            "about": shortage_text(plan),
            "problem": None,
            "button": None,
            "choices": [_choice(option) for option in starts],
        }
    (start,) = starts
    spec = start.spec
    about = f"{spec.stages} stages {start.about}; {spec.micro_batches} micro-batches a step, one forward, one backward."
    return {"kind": "none", "about": about, "problem": None, "button": f"Make a pipeline of {spec.stages} stages", "choices": []}


def _choice(start: PipelineStart) -> State:
    return {"value": start.mesh, "label": f"{start.spec.stages} stages, {start.mesh}", "note": f"{start.spec.stages} stages {start.about}"}


def _problem(error: WorkbenchError) -> State:
    return {"message": error.message, "ways_out": list(error.ways_out)}


def _state(plan: Plan, planned: PipelineReport) -> State:
    return {
        "kind": "pipeline",
        "controls": list(_controls(plan, planned)),
        "nominal": planned.remark,
        "figures": list(_figures(planned)),
        "balances": list(_balances(planned)),
        "board": _board(planned),
    }


def _controls(plan: Plan, planned: PipelineReport | None) -> Iterator[State]:
    spec = spec_of(plan)
    schedule = schedule_named(spec.schedule)
    axes = [name for name in plan.mesh.names if name == spec.axis or _is_free(plan, name)]
    yield _control("stages", "Stages", str(spec.stages), "number", most=len(planned.blocks) // spec.chunks if planned else 0)
    yield _control(
        "axis", "on mesh axis", spec.axis, "select", [(name, f"{name} ×{plan.mesh[name]}", _axis_note(name, plan)) for name in axes]
    )
    yield _control("schedule", "Schedule", spec.schedule, "menu", [(entry.name, entry.name, entry.about) for entry in ALL_SCHEDULES])
    yield _control("micro_batches", "Micro-batches", str(spec.micro_batches), "slider", [(str(n), str(n), "") for n in _counts(plan)])
    if schedule.loops:
        most = min(len(planned.blocks) // spec.stages, MOST_CHUNKS) if planned else MOST_CHUNKS
        counts = sorted({*range(1, most + 1), spec.chunks})
        yield _control("chunks", "Chunks a stage", str(spec.chunks), "select", [(str(n), str(n), "") for n in counts])
    yield _control("remat", "Recompute", spec.remat, "menu", list(_remat_options(spec)))
    yield _control("engine", "Engine", spec.engine, "choice", [(name, *_ENGINE[name]) for name in ENGINES])


def _control(key: str, label: str, value: str, kind: str, options: list[tuple[str, str, str]] | None = None, most: int = 0) -> State:
    shown = [{"value": name, "label": text, "note": note} for name, text, note in options or []]
    return {"key": key, "label": label, "value": value, "kind": kind, "options": shown, "most": most}


def _remat_options(spec: PipelineSpec) -> Iterator[tuple[str, str, str]]:
    """Yield recomputation policies from least memory to least work; `first_N` by quarters of the stages."""
    yield "always", *_REMAT["always"]
    quarters = {spec.recomputing_stages, 1, *(quarter * spec.stages // 4 for quarter in (1, 2, 3)), spec.stages - 1}
    for count in sorted(quarters & {*range(1, spec.stages)}, reverse=True) if spec.engine == "mpmd" else ():
        stages = first_stages(count)
        note = f"Recomputed on {stages}, where 1F1B holds the most micro-batches; other stages keep their activations."
        yield f"first_{count}", stages.removeprefix("the "), note
    for name in ("except_last", "never"):
        yield name, *_REMAT[name]


def _is_free(plan: Plan, axis: str) -> bool:
    named = {name for axes in plan.layout.rules for name in axes[1]}
    named |= {name for _, sharding in (*plan.layout.overrides, *plan.layout.constraints) for name in sharding.axes}
    return axis not in named


def _axis_note(axis: str, plan: Plan) -> str:
    spec = plan.pipeline
    return "holds the stages" if spec and axis == spec.axis else f"unused axis: it would hold {plan.mesh[axis]} stages"


def _counts(plan: Plan) -> tuple[int, ...]:
    spec = plan.pipeline
    try:
        return tuple(sorted({*micro_batch_counts(plan.program), *((spec.micro_batches,) if spec else ())}))
    except PipelineError:
        return (spec.micro_batches,) if spec else ()


def _figures(planned: PipelineReport) -> Iterator[State]:
    step = planned.simulated
    update = step.seconds - step.makespan
    if not planned.is_in_step:
        yield _figure("step", "Step", format_seconds(step.seconds), f"update {format_seconds(update)}" if update > 0 else "predicted")
    least = planned.least_bubble
    yield _figure("bubble", "Bubble", f"{step.bubble:.1%}", "" if least is None else f"{least:.1%} with equal stages")
    yield _figure("balance", "Balance of the stages", f"{planned.balance:.1%}", "mean over busiest stage")
    if not planned.is_in_step:
        yield _fullest(planned)
    sent = sum(planned.traffic.values())
    links = len(planned.traffic)
    yield _figure("sent", "Sent between stages", format_bytes(sent), f"a step, over {links} link{'s' * (links != 1)}")


def _fullest(planned: PipelineReport) -> State:
    stage, peak = planned.fullest, planned.simulated.peaks[planned.fullest]
    share = peak / planned.capacity if planned.capacity else 0.0
    note = f"stage {stage}" + (f", {share:.0%} of {format_bytes(planned.capacity)}" if share >= 0.005 else "")
    return _figure("peak", "Fullest stage, per device", format_bytes(peak), note, "bad" if share > 1 else "")


def _figure(key: str, label: str, text: str, note: str, tone: str = "") -> State:
    return {"key": key, "label": label, "text": text, "note": note, "tone": tone}


def _balances(planned: PipelineReport) -> Iterator[State]:
    """Yield the ways to balance the stages, each with a note."""
    costs, spec = [block.work for block in planned.blocks], planned.spec
    now = evaluate_starts(costs, _starts(planned))
    yield {"key": "time", "label": "Balance by time", "note": "minimise the time of the slowest virtual stage", "on": not spec.boundaries}
    yield {"key": "memory", "label": "Balance by memory", "note": "minimise the memory of the largest virtual stage", "on": False}
    buckets = bucket_starts(planned)
    rule = evaluate_starts(costs, buckets)
    empty = 0 in rule.sizes(len(costs))
    note = (
        "leaves a virtual stage empty"
        if empty
        else f"Lingvo's rule: slowest virtual stage {format_seconds(rule.worst)}, {_against(rule, now)}"
    )
    yield {"key": "buckets", "label": "Bucket rule", "note": note, "on": buckets == now.starts and bool(spec.boundaries)}


def _against(other: Balance, now: Balance) -> str:
    change = other.worst / now.worst - 1 if now.worst else 0.0
    return "as now" if abs(change) < 0.0005 else f"{abs(change):.1%} {'more' if change > 0 else 'less'} than now"


def _starts(planned: PipelineReport) -> tuple[int, ...]:
    starts, count = [], 0
    for piece in planned.virtual_stages[:-1]:
        count += len(piece.blocks)
        starts.append(count)
    return tuple(starts)


def _board(planned: PipelineReport) -> State:
    """Return blocks with heights (1 is an even share of the work), virtual stage boundaries, and stage heads."""
    spec = planned.spec
    even = sum(block.work for block in planned.blocks) / spec.stages or 1.0
    names = [template(block.path) for block in planned.blocks]
    return {
        "blocks": [
            {
                "path": block.path,
                "alike": name,
                "height": round(block.work / even, 5),
                "title": f"{block.path}: forward {format_seconds(block.forward)}, backward {format_seconds(block.backward)} "
                f"of a micro-batch · parameters {format_bytes(block.parameters)} · a boundary here sends {format_bytes(block.crossing)}",
            }
            for block, name in zip(planned.blocks, names, strict=True)
        ],
        "starts": list(_starts(planned)),
        "stages": spec.stages,
        "chunks": spec.chunks,
        "pieces": [
            {"name": stage_text(piece.number, spec), "stage": piece.device, "skips": list(_skips(piece, spec))}
            for piece in planned.virtual_stages
        ],
        "heads": [_head(device, planned) for device in range(spec.stages)],
        "skips": [line for piece in planned.virtual_stages for line in _skips(piece, spec)],
        "even": format_seconds(even),
    }


def _skips(piece: VirtualStage, spec: PipelineSpec) -> Iterator[State]:
    for later, count in piece.cost.sends:
        if later > piece.number + 1:
            yield {
                "from": stage_text(piece.number, spec),
                "to": stage_text(later, spec),
                "text": format_bytes(count),
                "a": piece.number,
                "b": later,
            }


@dataclass(frozen=True, slots=True)
class _StagePieces:
    device: int
    planned: PipelineReport

    @property
    def pieces(self) -> list[VirtualStage]:
        return [piece for piece in self.planned.virtual_stages if piece.device == self.device]

    @property
    def parameters(self) -> int:
        size = {block.path: block.parameters for block in self.planned.blocks}
        return sum(size[path] for piece in self.pieces for path in piece.blocks)


def _head(device: int, planned: PipelineReport) -> State:
    stage, step = _StagePieces(device, planned), planned.simulated
    work = sum(piece.cost.work for piece in stage.pieces)
    sent = [(later, count) for piece in stage.pieces for later, count in piece.cost.sends]
    where = " · ".join(f"{format_bytes(count)} to {stage_text(later, planned.spec)}" for later, count in sent)
    return {
        "name": f"Stage {device}",
        "facts": [
            _fact("time", format_seconds(work), f"of one micro-batch, forward and backward; idle {step.idle(device):.1%} of the step"),
            _fact("idle", f"{step.idle(device):.0%}", "idle share of this stage"),
            *([] if planned.is_in_step else [_memory_fact(device, planned)]),
            _fact("weights", format_bytes(stage.parameters), "unsharded parameters of its blocks"),
            _fact("sends", format_bytes(sum(count for _, count in sent)) if sent else "–", where or "nothing"),
        ],
    }


def _memory_fact(device: int, planned: PipelineReport) -> State:
    peak, flying = planned.simulated.peaks[device], planned.simulated.in_flight(device)
    title = f"peak of one device, with {flying} micro-batches in flight"
    return _fact("memory", format_bytes(peak), title, "bad" if planned.capacity and peak > planned.capacity else "")


def _fact(label: str, text: str, title: str, tone: str = "") -> State:
    return {"label": label, "text": text, "title": title, "tone": tone}
