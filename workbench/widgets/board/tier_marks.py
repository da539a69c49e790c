"""Presentation of figures on the board: tier marks, the settling line, and the key figure record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.reports.report import Report
from workbench.session.figure_tiers import SettlingState
from workbench.widgets.glossary.plan_terms import TIERS

SAYS = {name.lower(): f"{name}. {says}" for name, says, _, _ in TIERS}
"""Tooltip of each tier."""
_OF_COLLECTIVES = ("predicted", "mfu", "memory", "sent")  # figures that follow from the bytes sent
_TIMES = ("predicted", "mfu")


def tier_of(key: str, report: Report) -> str:
    """Return the tier of a key figure: `planned` if it follows from Shardy's placement, else the report's."""
    if key == "measured":
        return "measured"
    if report.plan.pipeline is not None:  # stages are planned block by block; the partitioner sees only the whole program
        return "planned"
    if key == "memory" or (key in _TIMES and report.has_compiled_times) or (key == "sent" and report.is_scheduled):
        return report.tier
    return report.prediction.tier if settles(key) else "planned"


def source_of(tier: str, report: Report) -> str:
    """Return the source of a figure: figures of two compilers are as different as those of two tiers."""
    result = {"partitioned": report.prediction.partitioned, "compiled": report.compiled}.get(tier)
    return f"{tier} by {result.compiler}" if result is not None else tier


def settles(key: str) -> bool:
    """Whether a figure changes once the partitioner has answered."""
    return key in _OF_COLLECTIVES


def mark_of(tier: str) -> dict[str, str]:
    return {"key": tier, "label": tier.capitalize(), "title": SAYS[tier]} if tier else {}


def fact(label: str, text: str, note: str, tone: str = "", tier: str = "") -> dict[str, Any]:
    return {"label": label, "text": text, "note": note, "tone": tone, "mark": mark_of(tier)}


def settling_record(settling_state: SettlingState | None, report: Report) -> dict[str, Any]:
    """Return the line under the figures; `settling_state` is `None` without a partitioner."""
    return {
        "mark": mark_of(tier_of("memory", report)),
        "text": _text(settling_state, report),
        "settling": bool(settling_state and settling_state.is_settling and report.plan.pipeline is None),
    }


def _text(settling_state: SettlingState | None, report: Report) -> str:
    if report.plan.pipeline is not None:
        return "by Shardy, in this process, for each block of each pipeline stage"
    if report.compiled is not None:
        times = "and kernel times" if report.has_compiled_times else ""
        if report.is_scheduled:
            known = f"communication, memory {times}" if times else "communication and memory; kernel times estimated"
            return f"by {report.compiled.compiler}: {known}"
        sent = f"; communication by {report.partitioned.compiler}" if report.partitioned else ""
        return f"by {report.compiled.compiler}: {f'memory {times}'.rstrip()}{sent}"
    if report.partitioned is not None:
        return f"by {report.partitioned.compiler}: communication; memory and time estimated from it"
    if settling_state is None:
        return "by Shardy, in this process"
    return "asking XLA…" if settling_state.is_settling else settling_state.reason


# A key figure at the top of the board.


@dataclass(frozen=True, slots=True)
class Figure:
    """One key figure.

    - `parts` of its bar; `apart`: a quantity shown beside the bar and not part of the figure; `limit`: where the bar
      should end;
    - `tier` of the figure; `tiers`: the same number as compiled or measured;
    - `source`: `planned` or the compiler; only figures of one source are subtracted;
    - `range`: text of the interval with 90 % coverage, `bounds` its ends; empty if settled or unknown;
    - lower is better, unless `more_is_better`.
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
