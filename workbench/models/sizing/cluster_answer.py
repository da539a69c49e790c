"""Answers to cluster questions as text and JSON: fit, three layouts with figures, and launcher options."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from workbench.core.tensor import Role
from workbench.core.text_tables import count_text, pairs_text, table_text, wrap_text
from workbench.errors import SearchError, unknown_name
from workbench.models.sizing.candidate_layouts import GRADIENT, PARAMETER, step_flops
from workbench.models.sizing.cluster_question import ClusterQuestion, format_amount
from workbench.models.sizing.launcher_options import LauncherOptions, launcher_options
from workbench.models.sizing.plan_layout import ESTIMATED, PlannedLayout
from workbench.plan.plan import Plan
from workbench.tracing.named_optimizers import find_optimizer
from workbench.units import format_bytes, format_dollars, format_range, format_seconds

DAY = 86400
SLOW, ONE_PERCENT = 100, 0.01  # smaller figures have decimals
NAMES = {Role.PARAMETER: "weights", Role.OPTIMIZER_STATE: "optimizer", Role.GRADIENT: "gradients", Role.ACTIVATION: "activations"}


Key = Callable[[PlannedLayout], tuple[float, ...]]
GOALS: Mapping[str, Key] = {
    "fastest": lambda layout: (layout.seconds, layout.devices),
    "fewest devices": lambda layout: (layout.devices, layout.seconds),
    "cheapest": lambda layout: (layout.price, layout.devices),
}
"""Layouts of an answer, with the key that each minimizes."""


@dataclass(frozen=True)
class ClusterAnswer:
    """Cluster resources that a model needs.

    - `layouts`: the best layout found for each of `GOALS`; empty if nothing fits on any number of devices tried;
    - `fits`: whether it fits on the cluster; otherwise `layouts` use more devices of its kind;
    - `least_memory`: bytes on the fullest device in the leanest layout on the whole cluster, if nothing fits there;
    - `planned`, `refused`: the numbers of layouts that the planner planned and refused; `outlined`: the number compared
      by closed-form estimates;
    - `plan_of`: returns the plan of one of its layouts, planned on demand;
    - `is_complete`: by its closed-form estimate, no other layout is better than the planned ones;
    - `approximations`: differences between the planned program and the model.
    """

    question: ClusterQuestion
    layouts: Mapping[str, PlannedLayout]
    fits: bool
    outlined: int
    planned: int
    refused: int
    device_counts: tuple[int, ...]
    seconds: float
    plan_of: Callable[[PlannedLayout], Plan] = field(compare=False, repr=False)
    approximations: tuple[str, ...] = ()
    least_memory: float = 0.0
    is_complete: bool = False

    def plan(self, goal: str = "fastest") -> Plan:
        """Return the plan of the layout for one of `GOALS`. Raises `SearchError` for a goal without a layout."""
        if goal not in self.layouts:
            raise SearchError(*unknown_name("layout", goal, self.layouts))
        return self.plan_of(self.layouts[goal])

    def __str__(self) -> str:
        return answer_text(self)


def answer_text(answer: ClusterAnswer) -> str:
    """The whole answer: question, layouts, launcher options of the first one, and notes."""
    parts = [headline_text(answer), pairs_text(_facts(answer))]
    if answer.layouts:
        columns = [[goal, *figures_of(answer.question, layout).values()] for goal, layout in answer.layouts.items()]
        names = ["", *figures_of(answer.question, next(iter(answer.layouts.values())))]
        first, *rows = zip(names, *columns, strict=True)
        parts += [table_text([f"{name}~" for name in first], [row for row in rows if set(row[1:]) != {""}]), options_text(answer)]
    return "\n\n".join([*parts, "\n".join(wrap_text(note) for note in notes_of(answer))])


def headline_text(answer: ClusterAnswer) -> str:
    """Whether the model fits, and the least number of devices."""
    question, fewest = answer.question, answer.layouts.get("fewest devices")
    name, hardware = question.name, question.hardware
    if not answer.layouts:
        most = f"{max(answer.device_counts, default=hardware.size):,}"
        return f"{name} on {hardware}: no layout fits, on up to {most} devices."
    assert fewest is not None  # every answer with a layout has it
    verb = "it decodes" if question.workload.is_inference else "it trains"
    few = count_text(fewest.devices, "device")
    took, likely = _duration_clause(question, fewest), " (estimated)" if fewest.tier == ESTIMATED else ""
    if not answer.fits:
        return f"{name} does not fit on {hardware}; {verb} on {few}, {fewest.hardware}{took}{likely}."
    enough = f"{few} {'are' if fewest.devices > 1 else 'is'} enough{took}{likely}"
    fastest = answer.layouts["fastest"]
    if not question.tokens or fastest.devices == fewest.devices:
        return f"{name} fits on {hardware}; {enough}."
    quick = " (estimated)" if fastest.tier == ESTIMATED else ""
    took = f"{count_text(fastest.devices, 'device')} take {_duration(question, fastest)}{quick}"
    return f"{name} fits on {hardware}: {took} for {format_amount(question.tokens)} tokens; {enough}."


def _duration_clause(question: ClusterQuestion, layout: PlannedLayout) -> str:
    return f", in {_duration(question, layout)}" if question.tokens else ""


def _duration(question: ClusterQuestion, layout: PlannedLayout) -> str:
    return duration_text((days_of(question, layout) or 0.0) * DAY)


def duration_text(seconds: float) -> str:
    """
    >>> duration_text(75), duration_text(5400), duration_text(2e5), duration_text(37.6e6), duration_text(1.2e9)
    ('75 s', '1.5 hours', '2.31 days', '435 days', '38 years')
    """
    for unit, scale, most in (("s", 1.0, 300.0), ("minutes", 60.0, 60.0), ("hours", 3600.0, 48.0), ("days", DAY, 3650.0)):
        if seconds < most * scale:
            value = seconds / scale
            return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{seconds / DAY / 365.25:,.0f} years"


def _facts(answer: ClusterAnswer) -> Iterator[tuple[str, str, str]]:
    question = answer.question
    architecture, workload = question.architecture, question.workload
    active = f"; a token passes {format_amount(architecture.active)}" if architecture.experts else ""
    yield (
        "parameters",
        f"{architecture.parameters:,}",
        f"{architecture.family}, {architecture.layers + architecture.encoder_layers} layers, d_model {architecture.d_model:,}{active}",
    )
    if workload.is_inference:
        tokens_text = "one token" if workload.batch == 1 else f"one of each of {workload.batch:,} sequences"
        yield "step", count_text(workload.batch, "token"), f"{tokens_text}, after {workload.seq:,} cached tokens"
        yield "held as", workload.weights, f"weights; cache in bfloat16, products in {workload.compute}"
    else:
        yield "step", count_text(question.step_tokens, "token"), f"{count_text(workload.batch, 'sequence')} of {workload.seq:,}"
        state, scaled = find_optimizer(workload.optimizer), f", of weights in layers in {workload.precision}" if workload.precision else ""
        held = f"{PARAMETER + GRADIENT + state.state_bytes:.3g} bytes a parameter"
        if workload.lora:
            trained = format_amount(architecture.adapter_parameters * workload.lora)
            yield "trained", f"{trained} parameters", f"adapters of rank {workload.lora}, in bfloat16 with {state.keeps}"
            yield "held as", workload.weights, f"frozen weights of layers; products in {workload.compute}{scaled}"
        else:
            yield "held as", held, f"float32 weights, gradients and {state.keeps}; products in {workload.compute}{scaled}"
    if question.tokens:
        yield "in all", f"{format_amount(question.tokens)} tokens", count_text(-(-question.tokens // question.step_tokens), "step")
    if not answer.fits and answer.least_memory:
        capacity = format_bytes(question.hardware.chip.memory)
        yield "least memory", format_bytes(answer.least_memory), f"of the {capacity} of a device, estimated, over all devices"


def figures_of(question: ClusterQuestion, layout: PlannedLayout) -> dict[str, str]:
    """Figures of a layout by name as text; empty if unknown."""
    choice, step_range, days = layout.choice, layout.step_range, days_of(question, layout)
    speed, used = tokens_per_second(question, layout) / layout.devices, utilisation(question, layout)
    roles = {_name_of(role, question): format_bytes(layout.by_role[role]) if role in layout.by_role else "" for role in Role}
    return {
        "devices": f"{layout.devices:,}",
        "layout": str(choice),
        "micro-batches": f"{choice.micro_batches:,} of {choice.micro_batch}" if choice.micro_batches > 1 else "",
        "step time": format_seconds(layout.seconds),
        "range": format_range(step_range[0].low, step_range[0].high, format_seconds) if step_range else "none",
        "tokens/s a device": f"{speed:,.0f}" if speed >= SLOW else f"{speed:.3g}",
        "MFU": f"{used:.1%}" if used >= ONE_PERCENT else f"{100 * used:.2g}%",
        "total time": "" if days is None else duration_text(days * DAY),
        "cost": cost_text(question, layout),
        "memory": f"{format_bytes(layout.memory)} of {format_bytes(layout.hardware.chip.memory)}",
        **{f"  {name}": text for name, text in roles.items()},
        "figures": layout.tier,
    }


def tokens_per_second(question: ClusterQuestion, layout: PlannedLayout) -> float:
    return question.step_tokens / layout.seconds


def utilisation(question: ClusterQuestion, layout: PlannedLayout) -> float:
    """Model FLOPs utilization: model FLOPs over the peak FLOPs of all devices in the step."""
    peak = layout.hardware.chip.peak(question.workload.compute) * layout.devices
    return step_flops(question.architecture, question.workload) / (layout.seconds * peak)


def days_of(question: ClusterQuestion, layout: PlannedLayout) -> float | None:
    """Days to process all tokens; `None` without a number of tokens."""
    return question.tokens / tokens_per_second(question, layout) / DAY if question.tokens else None


def cost_of(question: ClusterQuestion, layout: PlannedLayout) -> float | None:
    """Dollars for all tokens, or for a million without a number of tokens; `None` if the price is unknown."""
    hourly = layout.hardware.hourly_price
    return None if hourly is None else (question.tokens or 1e6) / tokens_per_second(question, layout) / 3600 * hourly


def cost_text(question: ClusterQuestion, layout: PlannedLayout) -> str:
    cost = cost_of(question, layout)
    return "" if cost is None else format_dollars(cost) + ("" if question.tokens else " a M tokens")


def _name_of(role: Role, question: ClusterQuestion) -> str:
    cache = role is Role.MODEL_STATE and question.workload.is_inference
    return "cache" if cache else NAMES.get(role, role.value)


def options_text(answer: ClusterAnswer) -> str:
    goal, layout = next(iter(answer.layouts.items()))
    launchers = launcher_options(layout.choice, answer.question.workload, layout.hardware)
    return "\n\n".join([f"To run the layout `{goal}`", *map(_launcher_text, launchers)])


def _launcher_text(options: LauncherOptions) -> str:
    lines = [f"  {options.launcher}", *(f"    {line}" for line in options.text.splitlines())]
    return "\n".join([*lines, *(f"    ! {note}" for note in options.unsupported)])


def notes_of(answer: ClusterAnswer) -> Iterator[str]:
    """Assumptions, approximations and limitations."""
    for text in answer.question.assumptions:
        yield f"Assumed: {text}."
    for text in answer.approximations:
        yield f"Approximated: {text}."
    if not answer.layouts:
        batch = f"a batch of {answer.question.workload.batch:,} sequences" if answer.question.workload.batch > 1 else "a batch of 1"
        yield f"Data and expert parallelism share {batch}. Try another `--batch`, a shorter `--seq`, or larger devices."
    chip = answer.question.hardware.chip
    if not chip.calibrated:
        of = f"; shares of the peak taken from {chip.shares_of}" if chip.shares_of else ""
        yield f"Not calibrated: no run on {chip.name} was fitted{of}."
    if chip.price is None:
        yield f'No price is known for {chip.name}; the cheapest layout takes the fewest device seconds. To set one: --on "... , 2.5 $/h".'
    if (how := answer.question.architecture.quantized) and answer.question.workload.is_inference:
        yield f"Approximated: weights are quantized ({how}) in the file, planned in {answer.question.workload.weights}."
    yield from dict.fromkeys(_range_note(answer.question, layout) for layout in answer.layouts.values())
    counts = answer.device_counts
    on = f"{min(counts):,} to {max(counts):,} devices" if len(counts) > 1 else count_text(counts[0], "device")
    yield (
        f"Examined: {count_text(answer.outlined, 'layout')} that fit according to a formula, on {on}; "
        f"{answer.planned:,} of them planned, {answer.refused:,} refused, in {answer.seconds:.1f} s."
        + ("" if answer.is_complete else " More time may find better ones: `--seconds 60`.")
    )


def _range_note(question: ClusterQuestion, layout: PlannedLayout) -> str:
    if layout.tier == ESTIMATED:
        return "Figures marked `estimated` come from a formula, scaled to agree with the planned layouts. They have no range."
    if layout.step_range is None:
        kind = "decoding" if question.workload.is_inference else question.workload.precision
        steps = f"{kind} steps on " if kind else ""
        return f"The step time has no range: nothing was fitted for {steps}{layout.hardware.chip.name}."
    return f"Ranges of the step time are from {layout.step_range[1]}."


def answer_record(answer: ClusterAnswer) -> dict[str, Any]:
    question, architecture = answer.question, answer.question.architecture
    return {
        "model": question.name,
        "architecture": {
            "family": architecture.family,
            "parameters": architecture.parameters,
            "active": architecture.active,
            "by_part": dict(architecture.by_part),
        },
        "hardware": str(question.hardware),
        "fits": answer.fits,
        "batch": question.workload.batch,
        "seq": question.workload.seq,
        "tokens": question.tokens or None,
        "inference": question.workload.is_inference,
        "optimizer": None if question.workload.is_inference else question.workload.optimizer,
        "precision": question.workload.precision or None,
        "weights": question.workload.weights if question.workload.is_inference or question.workload.lora else None,
        "lora": question.workload.lora or None,
        "layouts": {goal: _layout_record(question, layout) for goal, layout in answer.layouts.items()},
        **{name: getattr(answer, name) for name in ("outlined", "planned", "refused", "device_counts")},
        "notes": list(notes_of(answer)),
        "seconds": answer.seconds,
    }


def _layout_record(question: ClusterQuestion, layout: PlannedLayout) -> dict[str, Any]:
    choice, step_range = layout.choice, layout.step_range
    return {
        "devices": layout.devices,
        "hardware": str(layout.hardware),
        **asdict(choice),
        "figures": layout.tier,
        "step_seconds": layout.seconds,
        "step_range": [step_range[0].low, step_range[0].high] if step_range else None,
        "range_from": step_range[1] if step_range else None,
        "tokens_per_second_per_device": tokens_per_second(question, layout) / layout.devices,
        "model_flops_utilisation": utilisation(question, layout),
        "memory": layout.memory,
        "memory_by_role": {role.value: count for role, count in layout.by_role.items()},
        "capacity": layout.hardware.chip.memory,
        "days": days_of(question, layout),
        "dollars": cost_of(question, layout),
        "options": {
            launcher.launcher: {"options": launcher.text, "unsupported": list(launcher.unsupported)}
            for launcher in launcher_options(choice, question.workload, layout.hardware)
        },
    }
