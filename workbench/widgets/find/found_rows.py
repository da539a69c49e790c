"""Found plans as table rows, with the present plan among them and a preview of the changes of each."""

from typing import Any

from workbench.errors import WorkbenchError
from workbench.exercises.plan_figures import mfu
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.reports.verified_plan import TierName, share_of_planned_text
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import move_to_searched_hardware
from workbench.search.search_figures import NOMINAL, Figures, evaluate_plan, figures_on, figures_text
from workbench.search.search_state import objective_key
from workbench.search.tier_ranks import PRESENT, KnownFigures, PlanRow, plans_table, present_row, rank_plan, tokens_of, with_utilisation
from workbench.units import format_seconds
from workbench.widgets.board.background_queries import BackgroundQueries, compute_in_background
from workbench.widgets.find.find_progress import FindProgress
from workbench.widgets.find.finder import Finder
from workbench.widgets.gestures.panel_gestures import ExplainFoundGesture, TakeFoundGesture
from workbench.widgets.tabs.table_blocks import Block, Cell, Paint, act, buttons_cell, table_block

MOST_ROWS = 16
_HINT = "Point at a plan to preview its changes; click it to apply it (undo to go back)."


def present_candidate(finder: Finder, report: Report, background: BackgroundQueries | None) -> PlanCandidate | None:
    """Return the candidate of the present plan, `None` until it is known."""
    if finder.progress.space is None or report.plan == finder.progress.origin:
        return finder.progress.start
    name = f"candidate of {finder.progress.number}"
    return compute_in_background(background, report, name, lambda: finder.present_candidate(report.plan))


def present_figures(finder: Finder, report: Report, background: BackgroundQueries | None) -> KnownFigures | None:
    """Return the present plan's figures on the searched hardware; `None` if there are none yet."""
    space = finder.progress.space
    placed = report.plan if space is None else move_to_searched_hardware(space, report.plan)
    if placed is not None and placed.hardware == report.plan.hardware:
        return _figures_of_report(report)
    if placed is None:
        return None
    planned = compute_in_background(background, report.prediction, f"present plan on {placed.hardware}", lambda: _evaluate(placed))
    return None if planned is None else KnownFigures(planned)


def _figures_of_report(report: Report) -> KnownFigures | None:
    plan, seconds = report.plan, report.seconds
    if plan.pipeline is not None and report.staged_pipeline is None and not report.is_one_program:
        return None
    if seconds is None:
        seconds = report.staged_pipeline.seconds if report.staged_pipeline else report.flops.per_device / NOMINAL
    return KnownFigures(figures_on(plan.hardware, seconds, report.peak, plan.mesh.size, mfu=mfu(report)), _tier(report))


def _tier(report: Report) -> TierName:
    """Return the search's tier: communication by the hardware's compiler counts as `partitioned` too."""
    if report.plan.pipeline is not None:
        return "planned"
    is_compiled = report.is_compiled and (report.has_compiled_times or report.seconds is None)
    return "compiled" if is_compiled else "planned" if report.prediction.partitioned is None else "partitioned"


def _evaluate(plan: Plan) -> Figures | None:
    try:
        return evaluate_plan(plan)
    except WorkbenchError:
        return None


def rank_rows(progress: FindProgress, plan: Plan, present: PlanCandidate | None, now: KnownFigures | None) -> tuple[PlanRow, ...]:
    """Rank contenders by their best known figures, then the rest of the front, with the present plan."""
    tokens = tokens_of(plan.program, has_times=plan.hardware is not None or bool(progress.space and progress.space.hardware[0][0]))
    objective = progress.state.objective if progress.state else "seconds"
    best = progress.ranked.best[0] if progress.ranked and progress.ranked.best else None
    known_figures = {candidate: progress.known(candidate, planned) for candidate, planned in (*progress.contenders, *progress.front)}
    rows = [rank_plan("", candidate, figures, present, tokens) for candidate, figures in known_figures.items() if candidate != present]
    if now is not None:
        rows.append(rank_plan(PRESENT, present, now, present, tokens, f"{plan.mesh.description}, {plan.layout}"))
    contenders = {candidate for candidate, _ in progress.contenders}

    def order(row: PlanRow) -> tuple[Any, ...]:
        return (row.candidate not in contenders and not row.is_present, objective_key(objective, row.known.figures))

    ranked = enumerate(sorted(with_utilisation(rows), key=order), 1)
    return tuple(row.numbered(str(place), is_best=best is not None and row.candidate == best) for place, row in ranked)


def rows_block(finder: Finder, report: Report, rows: tuple[PlanRow, ...], background: BackgroundQueries | None) -> Block:
    shown = [*rows[:MOST_ROWS], *(row for row in rows[MOST_ROWS:] if row.is_present)]
    now, changes = present_row(shown), _changes(finder, report, shown, background)
    table = table_block(plans_table(shown), Paint({}), len(shown))
    labels = [column["label"] for column in table["columns"]]
    previews, gestures = {}, {}
    for row, drawn in zip(shown, table["rows"], strict=True):
        number = finder.progress.number_of(row.candidate) if row.candidate else ""
        drawn["key"] = key = number or PRESENT
        drawn["cells"] = [*map(_wrap, labels, drawn["cells"]), buttons_cell(*_acts(row, number))]
        previews[key] = _preview(finder.progress, row, now, changes.get(row.candidate, "") if row.candidate else "")
        if number and not row.is_present:
            gestures[key] = TakeFoundGesture(number).as_message()
    table["columns"].append({"label": "", "number": False, "title": ""})
    rest = f"{len(rows) - len(shown):,} more plans are in the chart." if len(rows) > len(shown) else ""
    return {**table, "note": rest, "found": {"rows": {"hint": _HINT, "previews": previews, "gestures": gestures}}}


def _wrap(label: str, cell: Cell) -> Cell:
    return {**(cell if isinstance(cell, dict) else {"text": cell}), "wrap": True} if label in ("plan", "changes") else cell


def _acts(row: PlanRow, number: str) -> list[dict[str, Any]]:
    if not number:
        return []
    why = "Why not?" if row.is_present and not row.is_best else "Why?"
    title = "Ledger from the nearest rival, and the effect of each decision"
    acts = [] if row.is_present else [act("Apply", TakeFoundGesture(number), focus=f"take {number}")]
    return [*acts, act(why, ExplainFoundGesture(number), title=title, focus=f"why {number}")]


def _preview(progress: FindProgress, row: PlanRow, now: PlanRow | None, changes: str) -> dict[str, str]:
    planned = dict(progress.found).get(row.candidate) if row.candidate else None
    text = " · ".join(filter(None, (_against(row, now), parts_text(planned) if planned else "")))
    return {"title": f"{row.text}: {figures_text(row.known.figures)}", "text": text, "changes": changes}


def _against(row: PlanRow, now: PlanRow | None) -> str:
    if now is None or row.is_present:
        return ""
    if row.known.tier != now.known.tier:
        return f"{row.known.tier}, the present plan {now.known.tier}: figures of different tiers"
    mine, theirs = now.known.figures, row.known.figures
    shares = [("step", theirs.seconds, mine.seconds), ("memory", theirs.memory, mine.memory)]
    return ", ".join(f"{name} {share_of_planned_text(new / old - 1)}" for name, new, old in shares if old) + " than the present plan"


def _changes(finder: Finder, report: Report, rows: list[PlanRow], background: BackgroundQueries | None) -> dict[PlanCandidate, str]:
    candidates = [row.candidate for row in rows if row.candidate]
    name = f"changes of {finder.progress.number} {hash(tuple(candidates))}"

    def work() -> dict[PlanCandidate, str]:
        return {candidate: finder.changes_of(candidate, report.plan) for candidate in candidates}

    return compute_in_background(background, report, name, work, patience=0.0) or {}


def parts_text(figures: Figures) -> str:
    """Format the parts of the step, `step: compute-bound 210 µs, exposed communication 40.0 µs`; empty if unknown."""
    parts = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in figures.parts)
    return f"step: {parts}" if parts else ""
