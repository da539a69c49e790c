"""What a search is to look for: as the user typed it, and as `make_space` and `read_requirements` take it."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.errors import SearchError
from workbench.plan.plan import Plan
from workbench.search.layout_choices import PER_OPERATION, PER_STAGE
from workbench.search.requirements import AtMost, Requirement
from workbench.search.traced_programs import AS_TRACED, OFFLOADS, USUAL_REMATS
from workbench.search.uneven_boundaries import BOUNDARIES
from workbench.units import parse_bytes, parse_price, parse_time, price_text
from workbench.widgets.gestures.gesture import whole_number
from workbench.widgets.gestures.panel_gestures import FindGesture

MOST_SECONDS = 3600
ALL_LAYOUTS = "all"
"""The choice of all layouts that apply, not of the known recipes alone."""
ANY = "any"
"""The choice of all that there is, where a search has a usual one by itself."""
BETWEEN = (AS_TRACED, "bfloat16")
"""The precisions that are chosen from where they are to be chosen."""
_AXIS = re.compile(r"([A-Za-z_]\w*)(?::(\d{1,7}))?")
_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))

_OPEN: Mapping[str, Callable[[FindGesture], FindGesture]] = {
    "stage": lambda form: replace(form, stages=""),
    "schedule": lambda form: replace(form, schedule=""),
    "micro_batches": lambda form: replace(form, micro_batches=""),
    "layout": lambda form: replace(form, layout=""),
    "zero": lambda form: replace(form, zero=""),
    "remat": lambda form: replace(form, remat=""),
    "offload": lambda form: replace(form, offload=ANY),
}
"""How a form leaves a decision open."""


@dataclass(frozen=True, slots=True)
class SearchTask:
    """What `make_space` and `read_requirements` are to be given: a plan and its `choices`, limits and pins."""

    plan: Plan
    choices: dict[str, Any]
    at_most: dict[str, float | str]
    pins: dict[str, Any]
    objective: str
    within: float
    until: str


def first_form(plan: Plan) -> FindGesture:
    """The form for a plan before anything was typed: as many devices of its kind as it has, everything else to be chosen."""
    hardware = plan.hardware
    return FindGesture(devices=str(hardware.size if hardware else plan.mesh.size), hardware=hardware.chip.name if hardware else "")


def read_task(form: FindGesture, plan: Plan) -> SearchTask:
    """The task that a form describes. Raises `WorkbenchError` for what was mistyped."""
    names, sizes = _read_axes(form.axes)
    start, choices = _read_hardware(form, plan)
    at_most: dict[str, float | str] = {"memory": _read_memory(form.memory)} if form.memory.strip() else {}
    if form.seconds.strip():
        at_most["seconds"] = _read_seconds(form.seconds)
    if form.dollars.strip():
        at_most["dollars"] = _read_dollars(form.dollars)
    choices |= {"keep": form.keep, **_read_layouts(form), **({"wide": True} if form.wide else {})}
    choices |= _read_rare_choices(form)
    choices |= {} if form.wide and not form.axes.strip() else {"axes": ("stage", *names)}
    within = whole_number(form.within, "number of seconds", most=MOST_SECONDS)
    return SearchTask(start, choices, at_most, {**_read_pins(form), **sizes}, form.objective, float(within), form.until)


def _read_rare_choices(form: FindGesture) -> dict[str, Any]:
    """What a search chooses from only where it is said: precisions, what the host may keep, less usual remats, and rules for the boundaries
    of stages."""
    precisions = {"precisions": tuple(form.precision.split("|"))} if form.precision else {}
    offloads = {"offloads": OFFLOADS} if form.offload else {}
    rules = {"boundaries": BOUNDARIES if form.boundaries == ANY else (form.boundaries,)} if form.boundaries else {}
    remats = {"remats": (*USUAL_REMATS, form.remat)} if form.remat not in ("", *USUAL_REMATS) and not form.wide else {}
    return {**precisions, **offloads, **rules, **remats}


def _read_layouts(form: FindGesture) -> dict[str, str]:
    """The layouts to choose from, where it is not a known recipe; one by name is pinned among all."""
    return {"layouts": form.layout if form.layout in (PER_OPERATION, PER_STAGE) else ALL_LAYOUTS} if form.layout else {}


def _read_pins(form: FindGesture) -> dict[str, Any]:
    """The decisions that the form fixes, beside sizes of mesh axes."""
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


def relax_form(form: FindGesture, requirement: Requirement, weakened: Requirement) -> FindGesture:
    """The form with one requirement given up as far as is needed: a higher limit, or a choice left open."""
    if isinstance(weakened, AtMost):
        match weakened.figure:
            case "memory":
                return replace(form, memory=round_up_bytes(weakened.limit))
            case "seconds":
                return replace(form, seconds=f"{math.ceil(weakened.limit * 1e7) / 1e4:g} ms")
            case "dollars":
                return replace(form, dollars=f"{math.ceil(weakened.limit * 1e6) / 1e6:.10g}")
        return form
    decision = getattr(requirement, "decision", "")
    if decision in _OPEN:
        return _OPEN[decision](form)
    names, sizes = _read_axes(form.axes)
    return replace(form, axes=" ".join(name if name == decision or name not in sizes else f"{name}:{sizes[name]}" for name in names))


def round_up_bytes(count: float) -> str:
    """Bytes as a person types them, never less.

    >>> round_up_bytes(1_234_567), round_up_bytes(16 << 30)
    ('1.18 MiB', '16 GiB')
    """
    unit, size = next((each for each in _UNITS if count >= each[1]), _UNITS[-1])
    return f"{math.ceil(count / size * 100) / 100:g} {unit}"


def _read_axes(text: str) -> tuple[tuple[str, ...], dict[str, int]]:
    """Names of mesh axes beside the stages', and the sizes of those that are fixed; `data` and `model` where none are named."""
    names, sizes = [], {}
    for word in re.split(r"[\s,]+", text.strip() or "data model"):
        found = _AXIS.fullmatch(word)
        if found is None:
            raise SearchError(f"`{word[:40]}` is not a mesh axis.", ["write `data model`, or `data model:8` to fix a size"])
        name, size = found.groups()
        names.append(name)
        if size:
            sizes[name] = int(size)
    return tuple(dict.fromkeys(name for name in names if name != "stage")), sizes


def _read_hardware(form: FindGesture, plan: Plan) -> tuple[Plan, dict[str, Any]]:
    """The plan and the choice of devices; the plan's own hardware stays where its kind and number are asked for."""
    counts = _read_counts(form.devices, "number of devices")
    if not counts:
        raise SearchError("The number of devices is missing.", [f"write {plan.mesh.size:,}", "write several: 64, 128, 256"])
    own, price = plan.hardware, _read_price(form.price)
    if not form.hardware:
        if price is not None:
            ways = ["choose the hardware", "omit the price"]
            raise SearchError(f"`{price_text(price)}` is a price per chip, but no hardware is chosen.", ways)
        return plan.updated(hardware=None, axis_assignment=None), {"devices": counts}
    if own is not None and own.chip.name == form.hardware:
        if price is not None:
            own = own.with_price(price)
        size = {} if counts == (own.size,) else {"devices": counts}
        return plan, {**size, "hardware": own} if size or price is not None else {}
    return plan, {"devices": counts, "hardware": form.hardware if price is None else f"{form.hardware}, {price_text(price)}"}


def _read_price(text: str) -> float | None:
    """US dollars an hour of a chip, `2.5` or `2.5 $/h`; `None` where nothing is typed."""
    if not text.strip():
        return None
    price = parse_price(text) or parse_price(f"{text.strip().removeprefix('$')} $/h")
    if not price:
        raise SearchError(f"`{text[:40]}` is not the price of a chip.", ["write `2.5`, US dollars an hour"])
    return price


def _read_counts(text: str, what: str) -> tuple[int, ...]:
    """Numbers to choose from, `64, 128 or 256`; none where nothing is typed."""
    return tuple(whole_number(each, what) for each in re.split(r"[\s,]+|or", text) if each)


def _read_memory(text: str) -> str:
    if parse_bytes(text) is None:
        raise SearchError(f"`{text[:40]}` is not an amount of memory.", ["write `40 GiB`"])
    return text


def _read_dollars(text: str) -> float:
    price = re.fullmatch(r"\s*\$?\s*(\d[\d,]*(?:\.\d+)?)\s*\$?\s*", text)
    if price is None or not float(price[1].replace(",", "")):
        raise SearchError(f"`{text[:40]}` is not a number of dollars.", ["write `900`, for 1,000 steps"])
    return float(price[1].replace(",", ""))


def _read_seconds(text: str) -> float:
    seconds = parse_time(text.strip()) or parse_time(f"{text.strip()} s")
    if not seconds:
        raise SearchError(f"`{text[:40]}` is not a time.", ["write `250 ms` or `4 s`"])
    return seconds
