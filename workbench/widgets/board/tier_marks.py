"""How the board shows a figure: the mark of its tier, the line on how settled the present ones are, and a key figure's record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.reports.report import Report
from workbench.session.figure_tiers import SettlingState
from workbench.widgets.glossary.plan_terms import TIERS

SAYS = {name.lower(): f"{name}. {says}" for name, says, _, _ in TIERS}
"""What each tier is, for a tooltip."""
_OF_COLLECTIVES = ("predicted", "mfu", "memory", "sent")  # figures that follow from the bytes sent
_TIMES = ("predicted", "mfu")


def tier_of(key: str, report: Report) -> str:
    """The tier of a key figure: what is computed from Shardy's placement stays planned, what is sent is the partitioner's."""
    if key == "measured":
        return "measured"
    if report.plan.pipeline is not None:  # its stages are planned block by block; the partitioner's answer is of the program as one
        return "planned"
    if key == "memory" or (key in _TIMES and report.has_compiled_times) or (key == "sent" and report.is_scheduled):
        return report.tier
    return report.prediction.tier if settles(key) else "planned"


def source_of(tier: str, report: Report) -> str:
    """Who computed a figure of this tier: figures of two compilers are no more alike than those of two tiers."""
    asked = {"partitioned": report.prediction.partitioned, "compiled": report.compiled}.get(tier)
    return f"{tier} by {asked.compiler}" if asked is not None else tier


def settles(key: str) -> bool:
    """Whether a figure changes once the partitioner has answered."""
    return key in _OF_COLLECTIVES


def mark_of(tier: str) -> dict[str, str]:
    """A tier as the front end marks it."""
    return {"key": tier, "label": tier.capitalize(), "title": SAYS[tier]} if tier else {}


def fact(label: str, text: str, note: str, tone: str = "", tier: str = "") -> dict[str, Any]:
    """A figure of a run or of a compilation, as the front end shows it."""
    return {"label": label, "text": text, "note": note, "tone": tone, "mark": mark_of(tier)}


def settling_record(settling_state: SettlingState | None, report: Report) -> dict[str, Any]:
    """The line under the figures; without a `settling_state` where no partitioner is asked."""
    return {
        "mark": mark_of(tier_of("memory", report)),
        "text": _text(settling_state, report),
        "settling": bool(settling_state and settling_state.is_settling and report.plan.pipeline is None),
    }


def _text(settling_state: SettlingState | None, report: Report) -> str:
    if report.plan.pipeline is not None:
        return "by Shardy, in this process, for each block of each pipeline stage"
    if report.compiled is not None:
        times = " and the times of kernels" if report.has_compiled_times else ""
        if report.is_scheduled:
            return f"by {report.compiled.compiler}: what is sent, memory{times or '; the times of its kernels are worked out'}"
        sent = f"; communication by {report.partitioned.compiler}" if report.partitioned else ""
        return f"by {report.compiled.compiler}: memory{times}{sent}"
    if report.partitioned is not None:
        return f"by {report.partitioned.compiler}: what is sent, and the memory and time that follow from it"
    if settling_state is None:
        return "by Shardy, in this process"
    return "asking XLA…" if settling_state.is_settling else settling_state.reason


# A key figure at the top of the board.


@dataclass(frozen=True, slots=True)
class Figure:
    """One key figure.

    - `parts` of its bar; `apart`: what is shown beside it and is no part of the figure; `limit`: where the bar should end;
    - `tier` of the figure; `tiers`: the same number as compiled or measured;
    - `source`: who computed it, `planned` or the compiler; only figures of one source are subtracted;
    - `range`: the interval that holds nine of ten true figures, `bounds` its ends; empty where it is settled or unknown;
    - less is better, unless `more_is_better`.
    """

    key: str
    label: str
    value: float
    show: Callable[[float], str]
    title: str
    note: str = ""
    tone: str = ""
    parts: tuple[dict[str, Any], ...] = ()
    apart: dict[str, Any] | None = None
    limit: dict[str, Any] | None = None
    tier: str = ""
    source: str = ""
    range: str = ""
    bounds: tuple[float, float] | None = None
    tiers: tuple[dict[str, Any], ...] = ()
    more_is_better: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)  # other items that an edit may add or remove, by the singular of their name
