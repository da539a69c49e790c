"""The search as JSON: the fields of its form, group by group, and how far it is, with a line of progress, the gap with its bar, and what is
to be said."""

from collections.abc import Sequence
from typing import Any

from workbench.core.offload import OPTIMIZER_STATE
from workbench.hardware.catalogue import default_catalogue
from workbench.plan.plan import Plan
from workbench.search.layout_choices import PER_OPERATION, PER_STAGE
from workbench.search.make_space import SCHEDULES
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirement_conflicts import Relaxation, clash_sentence, relaxation_text
from workbench.search.requirements import AtMost, present_text
from workbench.search.search_figures import NOMINAL_SECONDS, Figures
from workbench.search.search_space import ZEROS
from workbench.search.search_state import nothing_found_text
from workbench.search.traced_programs import AS_TRACED, ON_DEVICE, REMATS
from workbench.search.uneven_boundaries import BOUNDARIES
from workbench.units import format_bytes
from workbench.widgets.board.hardware_picker import NONE
from workbench.widgets.find.find_form import ALL_LAYOUTS, ANY, BETWEEN
from workbench.widgets.find.find_progress import FindProgress
from workbench.widgets.find.finder import Finder
from workbench.widgets.find.found_text import brief_figures, found_text
from workbench.widgets.gestures.panel_gestures import FindGesture, RelaxGesture
from workbench.widgets.tabs.table_blocks import act

INVITATION = (
    "Set your constraints; the search chooses the rest: mesh, layout, ZeRO, rematerialisation, stages, schedule and micro-batches. The "
    "first plans that fit appear within a second or two, and the picture fills while the gap to the proven lower bound falls."
)


def controls_state(finder: Finder, plan: Plan, now: Figures | None) -> dict[str, Any]:
    """Everything above the picture; `now`: figures of the present plan."""
    progress, form = finder.progress, finder.form_for(plan)
    return {
        "phase": progress.phase,
        "running": progress.running,
        "label": "Find" if progress.number == 0 else "Find again",
        "fields": form_fields(form, plan, progress),
        "line": _line(progress),
        "fraction": _fraction(progress),
        "gap": _gap(progress),
        "present": _present_line(progress, now),
        **_message(progress),
        "said": _announcement(progress),
    }


def _present_line(progress: FindProgress, now: Figures | None) -> str:
    """Where the present plan stands; empty before anything was found."""
    state = progress.state
    if now is None or state is None or state.best is None:
        return ""
    return f"present plan {present_text(now, state.best[1], state.objective, progress.requirements)}"


def _line(progress: FindProgress) -> str:
    """`12.4 s of 30 s · 37 planned · 264 known by their bounds`."""
    if progress.phase == "preparing":
        return "Tracing the program with each remat…"
    state = progress.state
    if state is None:
        return "Starting…" if progress.running else ""
    counts = f"{state.evaluated:,} planned, {state.bounded:,} excluded by bounds"
    size = f" of {progress.space.size:,} combinations" if progress.space else ""
    looking = progress.running and state.is_complete and state.best is None
    waiting = " · no plan yet" if progress.running and not state.is_complete and state.best is None else ""
    waiting = f" · looking for what {'would help' if progress.clash else 'clashes'}…" if looking else waiting
    return f"{state.elapsed:.1f} of {progress.within:,.0f} s · {counts}{size}{waiting}"


def _fraction(progress: FindProgress) -> float:
    """Of the time it may take."""
    elapsed = progress.state.elapsed if progress.state else 0.0
    return round(min(elapsed / progress.within, 1.0), 4) if progress.within else 0.0


def _gap(progress: FindProgress) -> dict[str, Any] | None:
    """The best found, what none can beat, and how much of the way between is closed."""
    state = progress.state
    if state is None or state.best is None:
        return None
    figures = state.best[1]
    devices = f"{figures.devices:,} device{'s' * (figures.devices != 1)}, " if state.objective == "devices" else ""
    best = f"best {devices}{brief_figures(figures)}"
    return {"best": best, "text": state.status, "share": round(1 - state.gap, 4), "proved": state.is_proved}


def _message(progress: FindProgress) -> dict[str, Any]:
    """What went wrong, or what clashes and the buttons that would help; before the first search an invitation."""
    if progress.message:
        return {"message": progress.message, "tone": "bad", "ways_out": list(progress.ways_out), "acts": []}
    clash = progress.clash
    if clash is not None and clash.is_proved:
        acts = [act(_relaxation_text(each), RelaxGesture(str(place))) for place, each in enumerate(clash.relaxations)]
        ways = list(map(_relaxed_plan, clash.relaxations))
        return {"message": clash_sentence(clash), "tone": "bad", "ways_out": ways, "acts": acts}
    if progress.phase == "done" and progress.state and progress.state.best is None:
        text = nothing_found_text(progress.state, progress.space.size if progress.space else 0)
        return {"message": text, "tone": "bad", "ways_out": ["search longer"], "acts": []}
    return {"message": INVITATION if progress.number == 0 else _remark(progress), "tone": "muted", "ways_out": [], "acts": []}


def _remark(progress: FindProgress) -> str:
    """What is to be known of what was found, or that nothing was."""
    if progress.phase == "stopped" and not progress.front:
        return "The search stopped before it found a plan."
    if progress.front and progress.space and not all(hardware for hardware, _ in progress.space.hardware):
        return NOMINAL_SECONDS
    return ""


def _relaxation_text(each: Relaxation) -> str:
    return f"Allow {each.weakened}" if isinstance(each.weakened, AtMost) else f"Remove: {each.requirement}"


def _relaxed_plan(each: Relaxation) -> str:
    return f"With `{each.weakened}` ({relaxation_text(each)}) there is {found_text(each.candidate)}: {brief_figures(each.figures)}."


def _announcement(progress: FindProgress) -> str:
    """The text for a screen reader; each ending once."""
    state = progress.state
    match progress.phase:
        case "done":
            if state is None or state.best is None:
                return "No plan was found."
            return f"The search is done: {len(progress.front)} plans on the front, {state.status}."
        case "stopped":
            return "The search was stopped."
        case "failed":
            return f"The search failed. {progress.message}"
    return ""


# The fields of the search's form as JSON, group by group: what is sought, what is fixed, and what is rarely chosen.

Field = dict[str, Any]

_AXES = "Besides the stage axis. Fix a size as in `data model:8`; add `context` or `expert`."
_KEEP = "Keep the sharding of every dimension and tensor in the current layout."
_WIDE = (
    "Larger space: context and expert axes, other links per axis, remat on the first stages or on some layers only, more "
    "schedules, uneven stages, activations or the optimiser's state on the host."
)
_STAGES = "Pipeline stages: `4` or `2, 4, 8`; `1` means no pipeline."
_MICRO_BATCHES = "Micro-batches per step: `16` or `8, 16, 32`; `1` means the step is not divided."
_LAYOUT = (
    "Any: also the program's other dimensions. Per operation: best sharding of each operation, without a pipeline. "
    "Per stage: best layout of each "
    "pipeline stage, if the layers are unrolled."
)
_PRICE = "Price of a chip per hour, such as `2.5`, if it differs from the catalogue."
_BOUNDARIES = "Stage boundaries: balanced by time, balanced by memory, or the fastest that fits into memory."
_PRECISION = "Data types of the arithmetic, or also of the parameters. They change results, so a wide search keeps them."
_REMAT = (
    "Activations kept for the backward pass: all, weight products (selective), weight products in host memory, or none. Host memory for "
    "steps without a pipeline; included under `any` only in a wide search."
)
_OFFLOAD = "Location of the optimiser's state between steps; host memory only without a pipeline."
UNTILS = (("complete", "front complete"), ("proved", "optimum proved"))
OBJECTIVES = (("seconds", "step time"), ("memory", "memory"), ("devices", "devices"), ("dollars", "dollars"))
PRECISIONS = ((AS_TRACED, AS_TRACED), ("bfloat16", "bfloat16"), ("params=bfloat16,moments=float32", "bfloat16 parameters"))
OFFLOAD_CHOICES = ((ANY, "any"), (ON_DEVICE, "on the devices"), (OPTIMIZER_STATE, "on the host"))
_LAYOUTS = (("", "any recipe"), (ALL_LAYOUTS, "any"))
BOUNDARY_TEXTS = {"time": "even by time", "memory": "even by memory", "fit": "fitted to memory"}


def form_fields(form: FindGesture, plan: Plan, progress: FindProgress) -> list[Field]:
    """All fields, each with its group; those of the empty group stand beside the button."""
    end = [_text("within", "Time limit (s)", form.within, "30", 6), _select("until", "until", form.until, UNTILS)]
    groups = (
        ("Goal", _goal_fields(form, plan)),
        ("Constraints", _fixed_fields(form, progress)),
        ("Advanced", _more_fields(form, plan)),
        ("", end),
    )
    return [{**each, "group": group} for group, fields in groups for each in fields]


def _goal_fields(form: FindGesture, plan: Plan) -> list[Field]:
    own = plan.hardware and plan.hardware.chip.name == form.hardware
    memory = format_bytes(plan.hardware.chip.memory) if plan.hardware and own else "all memory" if form.hardware else "no limit"
    kinds = ("", *default_catalogue().entries)
    return [
        _text("devices", "Devices", form.devices, "8, or 64, 128, 256", 12),
        _select("hardware", "of", form.hardware, [(each, each or NONE) for each in kinds]),
        _select("objective", "minimise", form.objective, OBJECTIVES),
        _text("memory", "Memory limit", form.memory, memory, 10),
        _text("seconds", "Step time limit", form.seconds, "no limit", 8),
        _text("dollars", "Cost limit, 1,000 steps", form.dollars, "$, no limit", 9),
        _text("price", "Price per chip", form.price, _price_hint(form, plan), 8, _PRICE),
    ]


def _price_hint(form: FindGesture, plan: Plan) -> str:
    """What a chip costs where nothing is typed: not the amount, for another kind may be chosen before the form is sent."""
    own = plan.hardware if plan.hardware and plan.hardware.chip.name == form.hardware else None
    entry = default_catalogue().entries.get(form.hardware)
    price = own.chip.price if own else entry.chip.price if entry else None
    return "$/h" if price is None else "list price"


def _fixed_fields(form: FindGesture, progress: FindProgress) -> list[Field]:
    known = [PER_OPERATION, PER_STAGE] if form.hardware else []
    known += [each.name for each in progress.space.layouts] if progress.space else []
    layouts = list(dict.fromkeys([*known, *([form.layout] if form.layout not in ("", ALL_LAYOUTS) else [])]))
    zeros = [("", "any"), *((each, each.replace("zero_", "ZeRO ")) for each in ZEROS)]
    texts = {each: PlanCandidate("", (), "", remat=each).describe("remat").removeprefix("remat ").removeprefix("with ") for each in REMATS}
    remats = [("", "any"), *((each, text) for each, text in texts.items() if each != AS_TRACED)]
    schedules = [("", "any"), *((each, each) for each in SCHEDULES)]
    return [
        _text("axes", "Mesh axes", form.axes, "data model", 9, _AXES),
        _text("stages", "Stages", form.stages, "any", 6, _STAGES),
        _select("schedule", "Schedule", form.schedule, schedules),
        _text("micro_batches", "Micro-batches", form.micro_batches, "any", 8, _MICRO_BATCHES),
        _select("layout", "Layout", form.layout, [*_LAYOUTS, *((each, each) for each in layouts)], _LAYOUT),
        _select("zero", "ZeRO", form.zero, zeros),
        _select("remat", "Remat", form.remat, remats, _REMAT),
    ]


def _more_fields(form: FindGesture, plan: Plan) -> list[Field]:
    """What is rarely chosen: the first option of each is what a search does by itself."""
    own = str(plan.program.precision)
    between = [("|".join(BETWEEN), " or ".join(BETWEEN))]
    precisions = [("", own), *between, *((each, text) for each, text in PRECISIONS if each != own)]
    boundaries = [("", "default"), (ANY, "any"), *((each, BOUNDARY_TEXTS[each]) for each in BOUNDARIES)]
    return [
        _select("precision", "Precision", form.precision, precisions, _PRECISION),
        _select("offload", "Optimiser's state", form.offload, [("", "default"), *OFFLOAD_CHOICES], f"{_OFFLOAD} {_USUAL_OFFLOAD}"),
        _select("boundaries", "Boundaries", form.boundaries, boundaries, f"{_BOUNDARIES} {_USUAL_BOUNDARIES}"),
        _check("keep", "Keep layout", form.keep, _KEEP),
        _check("wide", "Wide search", form.wide, _WIDE),
    ]


_USUAL_OFFLOAD = "Default: as in the program; both in a wide search."
_USUAL_BOUNDARIES = "Default: by time; any in a wide search."


def _text(name: str, label: str, value: str, hint: str, width: int, title: str = "") -> Field:
    return {"kind": "text", "name": name, "label": label, "value": value, "hint": hint, "width": width, "title": title, "options": []}


def _select(name: str, label: str, value: str, options: Sequence[tuple[str, str]], title: str = "") -> Field:
    shown = [{"name": key, "label": text} for key, text in options]
    return {"kind": "select", "name": name, "label": label, "value": value, "hint": "", "width": 0, "title": title, "options": shown}


def _check(name: str, label: str, value: bool, title: str) -> Field:
    return {"kind": "check", "name": name, "label": label, "value": value, "hint": "", "width": 0, "title": title, "options": []}
