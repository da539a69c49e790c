"""The search form: a sentence of goal, hardware and limit, and options; as JSON fields and as search arguments."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from workbench.core.offload import OPTIMIZER_STATE
from workbench.core.program import Program
from workbench.cost.step_flops import count_tokens
from workbench.errors import HardwareError, SearchError
from workbench.hardware.catalogue import default_catalogue, parse_hardware
from workbench.models.sizing.cluster_question import parse_amount
from workbench.plan.plan import Plan
from workbench.search.layout_choices import PER_OPERATION, PER_STAGE
from workbench.search.make_space import SCHEDULES
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import AtMost, Requirement
from workbench.search.search_space import ZEROS, SearchSpace
from workbench.search.traced_programs import AS_TRACED, OF_SOME_LAYERS, OFFLOADS, ON_DEVICE, REMATS, USUAL_REMATS
from workbench.search.uneven_boundaries import BOUNDARIES
from workbench.units import format_bytes, parse_bytes, parse_time
from workbench.widgets.gestures.gesture import whole_number
from workbench.widgets.gestures.panel_gestures import FindGesture

MOST_SECONDS = 3600
MOST_TOKENS = 10**18
DAY = 86400.0
ALL_LAYOUTS = "all"
"""Form value: all layouts that apply, not only the known recipes."""
ANY = "any"
"""Form value: every option, where the search has a narrower default."""
_AXIS = re.compile(r"([A-Za-z_]\w*)(?::(\d{1,7}))?")
_COUNTS = re.compile(r"\d+(?:\s*(?:,|\bor\b)\s*\d+)*(?=[\s,]|$)")
_DOLLARS = re.compile(r"\$\s*(\d[\d,]*(?:\.\d+)?)|(\d[\d,]*(?:\.\d+)?)\s*\$")
_TRAINING = re.compile(r"(\S+)\s+tokens\s+in\s+(\d+(?:\.\d+)?)\s+days?")
_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_LIMITS = ["write `40 GiB` a device", "`250 ms` a step", "`$900` for 1,000 steps", "`1T tokens in 30 days`"]


@dataclass(frozen=True, slots=True)
class SearchTask:
    """Arguments of `make_space` and `read_requirements`: a plan with its `choices`, limits and pins."""

    plan: Plan
    choices: dict[str, Any]
    at_most: dict[str, float | str]
    pins: dict[str, Any]
    objective: str
    within: float
    until: str


def first_form(plan: Plan) -> FindGesture:
    """Return the initial form: the plan's number and kind of devices, everything else open."""
    hardware = plan.hardware
    return FindGesture(on=f"{hardware.size} {hardware.chip.name}" if hardware else f"{plan.mesh.size}")


def read_task(form: FindGesture, plan: Plan) -> SearchTask:
    """Parse a form into a search task. Raises `WorkbenchError` for invalid text."""
    names, sizes = _read_axes(form.axes)
    choices = _read_devices(form.on, plan) | {"keep": form.keep, **_read_layouts(form), **({"wide": True} if form.wide else {})}
    choices |= _read_rare_choices(form)
    choices |= {} if form.wide and not form.axes.strip() else {"axes": ("stage", *names)}
    within = whole_number(form.within, "number of seconds", most=MOST_SECONDS)
    limits = {name: value for name, (value, _) in _read_limits(form.limit, plan).items()}
    return SearchTask(plan, choices, limits, {**_read_pins(form), **sizes}, form.objective, float(within), form.until)


def _read_devices(text: str, plan: Plan) -> dict[str, Any]:
    """Parse the devices: `64 TPU v5p`, `64, 128 or 256`, `TPU v5p 4x4x4`. Raises `WorkbenchError`."""
    shown = text.strip()
    try:
        whole = parse_hardware(shown)
    except HardwareError:
        whole = None
    match = _COUNTS.match(shown)
    kind = shown[match.end() :].partition(",")[0].strip() if match else ""
    if whole is not None and (match is None or kind not in default_catalogue()):  # `2 nodes of 8 H100`
        return {} if whole == plan.hardware else {"hardware": whole}
    if match is None:
        ways = [f"write {plan.mesh.size:,}", "write `64 TPU v5p`", "write several: `64, 128 or 256`"]
        raise SearchError(f"`{shown[:40]}` is not a number of devices." if shown else "The number of devices is missing.", ways)
    counts = _read_counts(match[0], "number of devices")
    present, (_, comma, options) = plan.hardware, shown[match.end() :].partition(",")
    if present is None or kind not in ("", present.chip.name):
        return {"devices": counts, **({"hardware": kind + comma + options} if kind else {})}
    hardware = parse_hardware(f"{present}, {options}") if options else present
    size = {} if counts == (present.size,) else {"devices": counts}
    return {**size, "hardware": hardware} if size or options else {}


def _read_limits(text: str, plan: Plan) -> dict[str, tuple[float | str, str]]:
    """Parse limits (`40 GiB, 250 ms, $900`) into figures, each with its text. Raises `SearchError`."""
    parts = [part.strip() for part in re.split(r",\s+|;|\band\b", text) if part.strip()]
    return dict(_read_limit(part, plan) for part in parts)


def _read_limit(text: str, plan: Plan) -> tuple[str, tuple[float | str, str]]:
    if training := _TRAINING.fullmatch(text):
        tokens = count_tokens(plan.program)
        if not tokens:
            raise SearchError(f"`{text[:40]}`: the program reads no tokens.", ["limit the time of a step, `250 ms`"])
        return "seconds", (float(training[2]) * DAY * tokens / parse_amount("tokens", training[1], MOST_TOKENS), text)
    if seconds := parse_time(text):
        return "seconds", (seconds, text)
    if (dollars := _DOLLARS.fullmatch(text)) and (amount := float((dollars[1] or dollars[2]).replace(",", ""))):
        return "dollars", (amount, text)
    if parse_bytes(text) and not text.isdecimal():
        return "memory", (text, text)
    raise SearchError(f"`{text[:40]}` is not a limit.", _LIMITS)


def _read_rare_choices(form: FindGesture) -> dict[str, Any]:
    """Return choices made only on request: precisions, offloading, unusual remats, boundary rules."""
    precisions = {"precisions": tuple(form.precision.split("|"))} if form.precision else {}
    offloads = {"offloads": OFFLOADS} if form.offload else {}
    rules = {"boundaries": BOUNDARIES if form.boundaries == ANY else (form.boundaries,)} if form.boundaries else {}
    remats = {"remats": (*USUAL_REMATS, form.remat)} if form.remat not in ("", *USUAL_REMATS) and not form.wide else {}
    return {**precisions, **offloads, **rules, **remats}


def _read_layouts(form: FindGesture) -> dict[str, str]:
    """Return the set of layouts; a layout named in the form is pinned among all of them."""
    return {"layouts": form.layout if form.layout in (PER_OPERATION, PER_STAGE) else ALL_LAYOUTS} if form.layout else {}


def _read_pins(form: FindGesture) -> dict[str, Any]:
    """Return the decisions fixed by the form, except for sizes of mesh axes."""
    layout = "" if form.layout == ALL_LAYOUTS else form.layout
    pins = {
        "layout": layout,
        "zero": form.zero,
        "remat": form.remat,
        "offload": "" if form.offload == ANY else form.offload,
        "schedule": form.schedule,
        "stage": _read_counts(form.stages, "number of stages"),
        "micro_batches": _read_counts(form.micro_batches, "number of micro-batches"),
    }
    return {name: value for name, value in pins.items() if value}


def _read_counts(text: str, what: str) -> tuple[int, ...]:
    """Parse numbers to choose from, `64, 128 or 256`; empty for an empty text."""
    return tuple(whole_number(word, what) for word in re.split(r"[\s,]+|or", text) if word)


def _read_axes(text: str) -> tuple[tuple[str, ...], dict[str, int]]:
    """Parse the names of mesh axes besides the stage axis, and the fixed sizes; `data` and `model` by default."""
    names, sizes = [], {}
    for word in re.split(r"[\s,]+", text.strip() or "data model"):
        match = _AXIS.fullmatch(word)
        if match is None:
            raise SearchError(f"`{word[:40]}` is not a mesh axis.", ["write `data model`, or `data model:8` to fix a size"])
        name, size = match.groups()
        names.append(name)
        if size:
            sizes[name] = int(size)
    return tuple(dict.fromkeys(name for name in names if name != "stage")), sizes


# Forms with one decision pinned to that of a plan, or with one requirement relaxed.

PINS: Mapping[str, Callable[[PlanCandidate], dict[str, str]]] = {
    "mesh": lambda plan: {
        "axes": " ".join(f"{axis}:{size}" for axis, size in plan.mesh if axis != "stage"),
        "stages": str(plan.size("stage")),
    },
    "layout": lambda plan: {"layout": plan.layout},
    "zero": lambda plan: {"zero": plan.zero},
    "remat": lambda plan: {"remat": plan.remat if plan.remat != AS_TRACED else ""},
    "pipeline": lambda plan: {"schedule": plan.schedule, "micro_batches": str(plan.micro_batches)},
    "offload": lambda plan: {"offload": plan.offload},
}
"""Form fields that pin each decision to that of a candidate."""
_OPEN = {"stage": "stages", "micro_batches": "micro_batches", **{name: name for name in ("schedule", "layout", "zero", "remat", "offload")}}
"""Form field of each decision; an empty field leaves the decision open."""


def pin_form(form: FindGesture, decision: str, candidate: PlanCandidate) -> FindGesture:
    """Pin a decision to that of a candidate. Raises `SearchError` for a decision without a field."""
    if decision not in PINS:
        raise SearchError(f"There is no decision `{decision[:20]}` to pin.", ["search again"])
    return replace(form, **PINS[decision](candidate))  # type: ignore[arg-type]


def relax_form(form: FindGesture, plan: Plan, requirement: Requirement, weakened: Requirement) -> FindGesture:
    """Relax one requirement as far as necessary: a higher limit, or an open choice."""
    if isinstance(weakened, AtMost):
        limits = {name: text for name, (_, text) in _read_limits(form.limit, plan).items()}
        return replace(form, limit=", ".join((limits | {weakened.figure: _limit_text(weakened)}).values()))
    decision = getattr(requirement, "decision", "")
    if decision in _OPEN:
        return replace(form, **{_OPEN[decision]: ANY if decision == "offload" else ""})  # type: ignore[arg-type]
    names, sizes = _read_axes(form.axes)
    return replace(form, axes=" ".join(name if name == decision or name not in sizes else f"{name}:{sizes[name]}" for name in names))


def _limit_text(limit: AtMost) -> str:
    match limit.figure:
        case "seconds":
            return f"{math.ceil(limit.limit * 1e7) / 1e4:g} ms"
        case "dollars":
            return f"${math.ceil(limit.limit * 1e6) / 1e6:.10g}"
    return round_up_bytes(limit.limit)


def round_up_bytes(count: float) -> str:
    """Format bytes as a user types them, rounded up.

    >>> round_up_bytes(1_234_567), round_up_bytes(16 << 30)
    ('1.18 MiB', '16 GiB')
    """
    unit, size = next((entry for entry in _UNITS if count >= entry[1]), _UNITS[-1])
    return f"{math.ceil(count / size * 100) / 100:g} {unit}"


# The fields as JSON: the sentence in the empty group, then the options, group by group.

Field = dict[str, Any]

_AXES = "Besides the stage axis. Fix a size as in `data model:8`; add `context` or `expert`."
_KEEP = "Keep the sharding of every dimension and tensor in the current layout."
_WIDE = (
    "Larger space: context and expert axes, other links per axis, remat on the first stages or on some layers only, more "
    "schedules, uneven stages, activations or the optimizer's state on the host."
)
_STAGES = "Pipeline stages: `4` or `2, 4, 8`; `1` means no pipeline."
_MICRO_BATCHES = "Micro-batches per step: `16` or `8, 16, 32`; `1` means the step is not divided."
_LAYOUT = (
    "Any: also the program's other dimensions. Per operation: best sharding of each operation, without a pipeline. "
    "Per stage: best layout of each "
    "pipeline stage, if the layers are unrolled."
)
_BOUNDARIES = "Stage boundaries: balanced by time, balanced by memory, or the fastest that fits into memory."
_PRECISION = "Data types of the arithmetic, or also of the parameters. They change results, so a wide search keeps them."
_REMAT = (
    "Activations kept for the backward pass: all, weight products (selective), weight products in host memory, or none. Host memory for "
    "steps without a pipeline; included under `any` only in a wide search."
)
_OFFLOAD = "Location of the optimizer's state between steps; host memory only without a pipeline."
_ON = "Number and kind of devices: `64 TPU v5p`, `64, 128 or 256`, `2 nodes of 8 H100`. With another price: `64 H100, 2.5 $/h`."
_LIMIT = "Memory of a device, time of a step, cost of 1,000 steps or training time: `40 GiB, 250 ms`, `$900`, `1T tokens in 30 days`."
_USUAL_OFFLOAD = "Default: as in the program; both in a wide search."
_USUAL_BOUNDARIES = "Default: by time; any in a wide search."
UNTILS = (("complete", "front complete"), ("proved", "optimum proved"))
OBJECTIVES = (("seconds", "fastest"), ("dollars", "cheapest"), ("devices", "fewest devices"), ("memory", "least memory"))
PRECISIONS = ((AS_TRACED, AS_TRACED), ("bfloat16", "bfloat16"), ("params=bfloat16,moments=float32", "bfloat16 parameters"))
BETWEEN = (AS_TRACED, "bfloat16")
"""Precisions that the search may choose between."""
OFFLOAD_CHOICES = ((ANY, "any"), (ON_DEVICE, "on the devices"), (OPTIMIZER_STATE, "on the host"))
_LAYOUTS = (("", "any recipe"), (ALL_LAYOUTS, "any"))
BOUNDARY_TEXTS = {"time": "even by time", "memory": "even by memory", "fit": "fitted to memory"}
_SENTENCE = ("on", "objective", "limit")


def form_fields(form: FindGesture, plan: Plan, space: SearchSpace | None) -> list[Field]:
    """Return all fields with their groups; the empty group is the sentence."""
    end = [_text("within", "Time limit (s)", form.within, "30", 6), _select("until", "until", form.until, UNTILS)]
    groups = (
        ("", _sentence_fields(form, plan)),
        ("Constraints", _fixed_fields(form, plan, space)),
        ("Advanced", _more_fields(form, plan)),
        ("Search", end),
    )
    return [{**entry, "group": group} for group, shown in groups for entry in shown]


def count_options(form: FindGesture) -> int:
    """Count the options that differ from their defaults."""
    default = FindGesture()
    return sum(
        getattr(form, option.name) != getattr(default, option.name) for option in fields(form) if option.name not in (*_SENTENCE, "zone")
    )


def _sentence_fields(form: FindGesture, plan: Plan) -> list[Field]:
    memory = f"fits in {format_bytes(plan.hardware.chip.memory)}" if plan.hardware else "fits in memory"
    count = plan.hardware.size if plan.hardware else plan.mesh.size
    kinds = [(f"{count} {name}", "") for name in default_catalogue().entries]
    return [
        _select("objective", "Find the", form.objective, OBJECTIVES),
        {**_text("on", "on", form.on, "64 TPU v5p", 22, _ON), "options": _options(kinds)},
        _text("limit", "limit", form.limit, memory, 24, _LIMIT),
    ]


def _fixed_fields(form: FindGesture, plan: Plan, space: SearchSpace | None) -> list[Field]:
    names = [PER_OPERATION, PER_STAGE, *(value.name for value in space.layouts)] if space else [PER_OPERATION, PER_STAGE]
    layouts = list(dict.fromkeys([*names, *([form.layout] if form.layout not in ("", ALL_LAYOUTS) else [])]))
    zeros = [("", "any"), *((value, value.replace("zero_", "ZeRO ")) for value in ZEROS)]
    names = [name for name in REMATS if name == form.remat or _allows_remat(plan.program, name)]
    texts = {name: PlanCandidate("", (), "", remat=name).describe("remat").removeprefix("remat ").removeprefix("with ") for name in names}
    remats = [("", "any"), *texts.items()]
    schedules = [("", "any"), *((value, value) for value in SCHEDULES)]
    return [
        _text("axes", "Mesh axes", form.axes, "data model", 9, _AXES),
        _text("stages", "Stages", form.stages, "any", 6, _STAGES),
        _select("schedule", "Schedule", form.schedule, schedules),
        _text("micro_batches", "Micro-batches", form.micro_batches, "any", 8, _MICRO_BATCHES),
        _select("layout", "Layout", form.layout, [*_LAYOUTS, *((value, value) for value in layouts)], _LAYOUT),
        _select("zero", "ZeRO", form.zero, zeros),
        _select("remat", "Remat", form.remat, remats, _REMAT),
    ]


def _allows_remat(program: Program, name: str) -> bool:
    """Whether the program can have a remat; for one of some layers, whether it has layers."""
    allowed = {text for option, text in program.choices if option == "remat"}
    return program.retrace is not None and name != AS_TRACED and str(REMATS["full_1/2" if name in OF_SOME_LAYERS else name]) in allowed


def _more_fields(form: FindGesture, plan: Plan) -> list[Field]:
    """Return rarely used fields; the first option of each is the search's default."""
    present = str(plan.program.precision)
    between = [("|".join(BETWEEN), " or ".join(BETWEEN))]
    precisions = [("", present), *between, *((value, text) for value, text in PRECISIONS if value != present)]
    boundaries = [("", "default"), (ANY, "any"), *((value, BOUNDARY_TEXTS[value]) for value in BOUNDARIES)]
    return [
        _select("precision", "Precision", form.precision, precisions, _PRECISION),
        _select("offload", "Optimizer's state", form.offload, [("", "default"), *OFFLOAD_CHOICES], f"{_OFFLOAD} {_USUAL_OFFLOAD}"),
        _select("boundaries", "Boundaries", form.boundaries, boundaries, f"{_BOUNDARIES} {_USUAL_BOUNDARIES}"),
        _check("keep", "Keep layout", form.keep, _KEEP),
        _check("wide", "Wide search", form.wide, _WIDE),
    ]


def _field(kind: str, name: str, label: str, value: str | bool, title: str) -> Field:
    return {"kind": kind, "name": name, "label": label, "value": value, "hint": "", "width": 0, "title": title, "options": []}


def _text(name: str, label: str, value: str, hint: str, width: int, title: str = "") -> Field:
    return {**_field("text", name, label, value, title), "hint": hint, "width": width}


def _select(name: str, label: str, value: str, options: Sequence[tuple[str, str]], title: str = "") -> Field:
    return {**_field("select", name, label, value, title), "options": _options(options)}


def _check(name: str, label: str, value: bool, title: str) -> Field:
    return _field("check", name, label, value, title)


def _options(options: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": key, "label": text} for key, text in options]
