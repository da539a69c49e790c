"""The pictures of what a search found, with the present plan among them, and what the compilers say of the chosen one."""

from typing import Any

from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.reports.verified_plan import FigureName, TierName, VerifiedPlan, reason_text, share_of_planned_text, tier_figure_text
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import on_searched_hardware
from workbench.search.requirements import AtMost, against_best_text
from workbench.search.search_figures import Figures, evaluate_plan
from workbench.visualize import found_plans
from workbench.visualize.charts.front_chart import front_chart
from workbench.visualize.found_plans import FoundPlan, FrontSigns
from workbench.visualize.front_axes import Up
from workbench.widgets.board.background_queries import BackgroundQueries, compute_in_background
from workbench.widgets.board.tier_marks import SAYS
from workbench.widgets.find.find_progress import FindProgress
from workbench.widgets.find.finder import Finder
from workbench.widgets.find.found_text import found_text, parts_text
from workbench.widgets.find.verification import PENDING, Verification
from workbench.widgets.gestures.panel_gestures import StopVerifyingGesture, TakeFoundGesture, VerifyFoundGesture
from workbench.widgets.tabs.table_blocks import Block, Cell, Column, Opens, Row, act, block, picture_block, row

MOST_FRONT = 24
_HINT = (
    "Click a plan to apply it (undo to go back). Point at a plan to see its changes. Plans above and right of the line are worse in both."
)


def front_pictures(finder: Finder, report: Report, now: Figures | None, background: BackgroundQueries | None) -> list[Block]:
    """Step time against memory, and where the number of devices is open, against that or what it costs; `now` is the present plan."""
    progress, front = finder.progress, {candidate for candidate, _ in finder.progress.front}
    changes = _changes_of_front(finder, report, background)
    found = [
        FoundPlan(str(place), found_text(each), figures, each in front, "\n".join(filter(None, (parts_text(figures), changes.get(each)))))
        for place, (each, figures) in enumerate(progress.found)
    ]
    opens = Opens(TakeFoundGesture, "plan")
    pictures: list[Block] = []
    for up in _sides(progress):
        signs = _signs(progress, now)
        picture, chart = found_plans(found, up, signs), front_chart(found, up, signs)
        pictures.append(picture_block(picture, "" if pictures else _HINT, f"front by {up}", opens, [chart] if chart else []))
    return pictures


def present_figures(progress: FindProgress, report: Report, background: BackgroundQueries | None) -> Figures | None:
    """The figures of the present plan as a search has them, before XLA is asked; `None` where there are none, or not yet."""
    placed = None if progress.space is None else on_searched_hardware(progress.space, report.plan)
    if placed is None:
        return None
    return compute_in_background(background, report, f"present plan on {placed.hardware}", lambda: _evaluate(placed))


def _evaluate(plan: Plan) -> Figures | None:
    try:
        return evaluate_plan(plan)
    except WorkbenchError:
        return None


def _signs(progress: FindProgress, now: Figures | None) -> FrontSigns:
    state = progress.state
    if state is None:
        return FrontSigns(now=now)
    limits = tuple(each for each in progress.requirements if isinstance(each, AtMost))
    return FrontSigns(
        chosen=progress.number_of(progress.chosen) if progress.chosen else "",
        now=now,
        against_best=against_best_text(now, state.best and state.best[1], state.objective, limits) if now else "",
        limits=limits,
        least=state.least if state.objective == "seconds" and not state.is_proved else None,
    )


def _changes_of_front(finder: Finder, report: Report, background: BackgroundQueries | None) -> dict[PlanCandidate, str]:
    """What each plan of the front changes of the present one, once that is worked out."""
    front = [candidate for candidate, _ in finder.progress.front[:MOST_FRONT]]
    name = f"changes of {finder.progress.number} {hash(tuple(front))}"

    def work() -> dict[PlanCandidate, str]:
        return {each: finder.changes_of(each, report.plan) for each in front}

    return compute_in_background(background, report, name, work, patience=0.0) or {}


def _sides(progress: FindProgress) -> tuple[Up, ...]:
    """Step time against memory; where the number of devices is open, against that and what it costs, too."""
    if len({figures.devices for _, figures in progress.front}) < 2:
        return ("memory",)
    return ("memory", "dollars") if all(figures.dollars for _, figures in progress.front) else ("memory", "devices")


# What the compilers say of the chosen plan: a button that asks them, how far they are, and their figures beside the planned ones.

FAR = 0.1
"""A difference from which on it stands out, as a share of what was planned."""
_VERIFY_HINT = "Run XLA's partitioner and the hardware's compiler in separate processes to check the planned figures"
_PLANNER = "Shardy's sharding and the cost model, as used by the search"


def verify_act(verification: Verification, candidate: PlanCandidate, number: str) -> dict[str, Any]:
    """The button of the card: it asks, or stops what was asked."""
    if verification.is_asking(candidate):
        return act("Stop verifying", StopVerifyingGesture(), title="Keep the answers so far", focus="verify")
    return act("Verify with compilers", VerifyFoundGesture(number), title=_VERIFY_HINT, focus="verify")


def waiting_text(verification: Verification, candidate: PlanCandidate) -> str:
    """What is awaited about a candidate; empty for nothing."""
    asked = verification.of(candidate)
    if asked is None or not verification.is_asking(candidate):
        return ""
    if verification.tier == "partitioned":
        return "Asking XLA's partitioner…"
    return f"Asking the compiler {_target(asked.plan)}: {verification.stage}…"


def verified_blocks(verification: Verification, candidate: PlanCandidate) -> list[Block]:
    """The figures of each tier, a row each; nothing where nobody was asked."""
    verified = verification.of(candidate)
    if verified is None:
        return []
    columns = (
        Column(""),
        Column("step", number=True),
        Column("vs. planned", number=True),
        Column("memory", number=True),
        Column("vs. planned", number=True),
        Column("by"),
    )
    rows = [_tier_row(verified, tier) for tier in ("planned", "partitioned", "compiled")]
    return [block("Compiler results", columns, rows)]


def _tier_row(verified: VerifiedPlan, tier: TierName) -> Row:
    cells = (*_figure_cells(verified, tier, "seconds", "seconds"), *_figure_cells(verified, tier, "memory", "bytes"))
    return row(tier, {"text": tier, "title": SAYS[tier]}, *cells, _source_cell(verified, tier))


def _figure_cells(verified: VerifiedPlan, tier: TierName, figure: FigureName, unit: str) -> tuple[Cell, Cell]:
    found = verified.tier(tier)
    value, difference = getattr(found, figure), verified.difference(figure, tier)
    if value is None:
        return {"text": "…" if found == PENDING else "–", "tone": "muted"}, ""
    shown = tier_figure_text(value, unit)
    if tier == "planned":
        return shown, ""
    text = share_of_planned_text(difference)
    tone = "warn" if abs(difference or 0.0) >= FAR else "muted" if text == "same" else ""
    return {"text": shown, "tone": "strong"}, {"text": text, "tone": tone}


def _source_cell(verified: VerifiedPlan, tier: TierName) -> Cell:
    """Whose figures they are, or why there are none."""
    found, by = verified.tier(tier), _PLANNER if tier == "planned" else verified.tier(tier).compiler
    text = " ".join(filter(None, (f"{by}." if by and found.reason else by, reason_text(verified, tier))))
    return {"text": text, "tone": "" if found.reason else "muted", "wrap": True}


def _target(plan: Plan) -> str:
    return f"of {plan.hardware}" if plan.hardware else "of the attached devices"
