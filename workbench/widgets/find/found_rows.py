"""The plans of a search as rows of a table, the present plan among them: what each changes is shown before it is taken."""

from typing import Any

from workbench.errors import WorkbenchError
from workbench.exercises.plan_figures import mfu
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.reports.verified_plan import TierName, share_of_planned_text
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import on_searched_hardware
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
    """The candidate that the present plan is, once that is known."""
    if finder.progress.space is None or report.plan == finder.progress.origin:
        return finder.progress.start
    name = f"candidate of {finder.progress.number}"
    return compute_in_background(background, report, name, lambda: finder.present_candidate(report.plan))


def present_figures(finder: Finder, report: Report, background: BackgroundQueries | None) -> KnownFigures | None:
    """The figures of the present plan, those of the board; on the searched hardware, as planned, where the plan has none or is at another
    price. `None` where there are none, or not yet."""
    space = finder.progress.space
    placed = report.plan if space is None else on_searched_hardware(space, report.plan)
    if placed is not None and placed.hardware == report.plan.hardware:
        return _figures_of_report(report)
    if placed is None:
        return None
    found = compute_in_background(background, report.prediction, f"present plan on {placed.hardware}", lambda: _evaluate(placed))
    return None if found is None else KnownFigures(found)


def _figures_of_report(report: Report) -> KnownFigures | None:
    plan, seconds = report.plan, report.seconds
    if plan.pipeline is not None and report.staged_pipeline is None and not report.is_one_program:
        return None
    if seconds is None:
        seconds = report.staged_pipeline.seconds if report.staged_pipeline else report.flops.per_device / NOMINAL
    return KnownFigures(figures_on(plan.hardware, seconds, report.peak, plan.mesh.size, mfu=mfu(report)), _tier(report))


def _tier(report: Report) -> TierName:
    """As the search names it: what XLA's partitioner says is partitioned, also where the hardware's compiler answered for it."""
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
    """The plans that the compilers are asked about, by what is known of them, then the others of the front; the present plan among them
    from the first moment. What nobody asks about stands behind, whatever was planned: the compilers may say otherwise."""
    tokens = tokens_of(plan.program, has_times=plan.hardware is not None or bool(progress.space and progress.space.hardware[0][0]))
    objective = progress.state.objective if progress.state else "seconds"
    best = progress.ranked.best[0] if progress.ranked and progress.ranked.best else None
    known = {each: progress.known(each, planned) for each, planned in (*progress.contenders, *progress.front)}
    rows = [rank_plan("", each, figures, present, tokens) for each, figures in known.items() if each != present]
    if now is not None:
        rows.append(rank_plan(PRESENT, present, now, present, tokens, f"{plan.mesh.description}, {plan.layout}"))
    asked = {each for each, _ in progress.contenders}

    def order(row: PlanRow) -> tuple[Any, ...]:
        return (row.candidate not in asked and not row.is_present, objective_key(objective, row.known.figures))

    ranked = enumerate(sorted(with_utilisation(rows), key=order), 1)
    return tuple(row.numbered(str(place), is_best=best is not None and row.candidate == best) for place, row in ranked)


def rows_block(finder: Finder, report: Report, rows: tuple[PlanRow, ...], background: BackgroundQueries | None) -> Block:
    """The rows as a table, each with its gestures and what is shown while it is pointed at."""
    shown = [*rows[:MOST_ROWS], *(row for row in rows[MOST_ROWS:] if row.is_present)]
    now, changes = present_row(shown), _changes(finder, report, shown, background)
    table = table_block(plans_table(shown), Paint({}), len(shown))
    labels = [each["label"] for each in table["columns"]]
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
    """The cell of a column whose lines may break."""
    return {**(cell if isinstance(cell, dict) else {"text": cell}), "wrap": True} if label in ("plan", "changes") else cell


def _acts(row: PlanRow, number: str) -> list[dict[str, Any]]:
    if not number:
        return []
    why = "Why not?" if row.is_present and not row.is_best else "Why?"
    title = "Ledger from the nearest rival, and the effect of each decision"
    acts = [] if row.is_present else [act("Apply", TakeFoundGesture(number), focus=f"take {number}")]
    return [*acts, act(why, ExplainFoundGesture(number), title=title, focus=f"why {number}")]


def _preview(progress: FindProgress, row: PlanRow, now: PlanRow | None, changes: str) -> dict[str, str]:
    """What the plan would change: against the present plan in one tier, as edits, and the parts of its step."""
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
    """What each plan changes of the present one, once that is worked out."""
    candidates = [row.candidate for row in rows if row.candidate]
    name = f"changes of {finder.progress.number} {hash(tuple(candidates))}"

    def work() -> dict[PlanCandidate, str]:
        return {each: finder.changes_of(each, report.plan) for each in candidates}

    return compute_in_background(background, report, name, work, patience=0.0) or {}


def parts_text(figures: Figures) -> str:
    """The parts of its step, `step: compute-bound 210 µs, exposed communication 40.0 µs`; empty where they are not known."""
    parts = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in figures.parts)
    return f"step: {parts}" if parts else ""
