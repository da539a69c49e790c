"""The form of the search and how far it is, as JSON: a line of progress, the gap with its bar, and what is to be said."""

from typing import Any

from workbench.plan.plan import Plan
from workbench.search.clashes import Clash, Relaxation
from workbench.search.figures import NOMINAL_SECONDS, Figures
from workbench.search.requirements import AtMost, present_text
from workbench.search.search_state import nothing_found_text
from workbench.widgets.find.find_fields import form_fields
from workbench.widgets.find.find_progress import FindProgress
from workbench.widgets.find.finder import Finder
from workbench.widgets.find.found_text import brief_figures, found_text
from workbench.widgets.gestures.finding import RelaxGesture
from workbench.widgets.tabs.edit_buttons import act

INVITATION = (
    "Say what is fixed; everything left open is chosen: mesh, layout, ZeRO, rematerialisation, stages, schedule and micro-batches. The "
    "first plans that fit appear within a second or two, and the picture fills while the gap to what no plan can beat falls."
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
    counts = f"{state.evaluated:,} planned, {state.bounded:,} known by bounds"
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
        return {
            "message": _clash_sentence(progress, clash),
            "tone": "bad",
            "ways_out": list(map(_relaxed_plan, clash.relaxations)),
            "acts": acts,
        }
    if progress.phase == "done" and progress.state and progress.state.best is None:
        text = nothing_found_text(progress.state, progress.space.size if progress.space else 0)
        return {"message": text, "tone": "bad", "ways_out": ["search longer"], "acts": []}
    return {"message": INVITATION if progress.number == 0 else _remark(progress), "tone": "muted", "ways_out": [], "acts": []}


def _remark(progress: FindProgress) -> str:
    """What is to be known of what was found, or that nothing was."""
    if progress.phase == "stopped" and not progress.front:
        return "The search was stopped before it found a plan."
    if progress.front and progress.space and not all(hardware for hardware, _ in progress.space.hardware):
        return NOMINAL_SECONDS
    return ""


def _relaxation_text(each: Relaxation) -> str:
    return f"Allow {each.weakened}" if isinstance(each.weakened, AtMost) else f"Leave open: {each.requirement}"


def _relaxed_plan(each: Relaxation) -> str:
    return f"With `{each.weakened}` there is {found_text(each.candidate)}: {brief_figures(each.figures)}."


def _clash_sentence(progress: FindProgress, clash: Clash) -> str:
    if clash.requirements:
        together = " together" if len(clash.requirements) > 1 else ""
        return f"No plan keeps {' and '.join(f'`{each}`' for each in clash.requirements)}{together}."
    refused = progress.state.refused if progress.state else ()
    return f"The space has no legal plan: {refused[0][0]}" if refused else "The space has no legal plan."


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
