"""Explanation of a found plan: a card, compiler results, the ledger from its rival, and single-decision variants."""

from collections.abc import Sequence
from typing import Any

from workbench.analysis.analyze import analyze
from workbench.analysis.plan_diff import PlanDiff
from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.reports.verified_plan import FigureName, TierName, VerifiedPlan, reason_text, share_of_planned_text, tier_figure_text
from workbench.search.background_verifier import NOT_COMPILED
from workbench.search.explain import Counterfactual, Ledger
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.search_figures import Figures, figures_text
from workbench.units import format_bytes, format_seconds
from workbench.visualize import step_time
from workbench.widgets.board.background_queries import BackgroundQueries, compute_in_background
from workbench.widgets.board.tier_marks import SAYS
from workbench.widgets.find.find_progress import FindProgress
from workbench.widgets.find.finder import Finder
from workbench.widgets.find.found_rows import parts_text
from workbench.widgets.gestures.panel_gestures import (
    ChooseFoundGesture,
    ExplainFoundGesture,
    StopVerifyingGesture,
    TakeFoundGesture,
    VerifyFoundGesture,
)
from workbench.widgets.gestures.view_gestures import UndoGesture
from workbench.widgets.tabs.history_tab import diff_blocks
from workbench.widgets.tabs.table_blocks import (
    Block,
    Cell,
    Column,
    Row,
    act,
    block,
    buttons_cell,
    note_block,
    picture_block,
    rest_text,
    row,
)

MOST_CHANGES = 30
FAR = 0.1
"""Relative difference from the planned figure that is highlighted."""
_EXPLAINING = "Planning each change and each single-decision variant…"
_VERIFY_HINT = "Run XLA's partitioner and the hardware's compiler in separate processes to check the planned figures"
_PLANNER = "Shardy's sharding and the cost model, as used by the search"


def chosen_blocks(finder: Finder, chosen: PlanCandidate, *, is_present: bool) -> list[Block]:
    progress = finder.progress
    card = {**note_block(""), "found": {"card": _card(finder, chosen, is_present=is_present)}}
    verified = [verified_block(progress, progress.verified[chosen][1])] if chosen in progress.verified else []
    return [card, *verified, *_explanation_blocks(progress)]


def _card(finder: Finder, chosen: PlanCandidate, *, is_present: bool) -> dict[str, Any]:
    progress = finder.progress
    number, figures = progress.number_of(chosen), progress.figures_of(chosen)
    take = act("Use this plan", TakeFoundGesture(number), title="Apply as one step of the history (undo to go back)")
    return {
        "title": str(chosen),
        "text": figures_text(progress.known(chosen, figures).figures) if figures else "",
        "parts": parts_text(figures) if figures else "",
        "present": is_present,
        "acts": [
            act("Undo", UndoGesture(), title="Back to the previous plan") if is_present else take,
            verify_act(progress, chosen, number),
            act("Why this one?", ExplainFoundGesture(number), title="Ledger from the nearest rival, and the effect of each decision"),
            act("Close", ChooseFoundGesture(number)),
        ],
        "than": {
            "label": "against",
            "verb": ExplainFoundGesture.verb,
            "plan": number,
            "value": progress.number_of(progress.than) if progress.than else "",
            "options": _list_rivals(progress, chosen),
        },
        "waiting": " ".join(filter(None, (_EXPLAINING if progress.asked else "", waiting_text(progress, chosen, finder.compilers.stage)))),
    }


def _list_rivals(progress: FindProgress, chosen: PlanCandidate) -> list[dict[str, str]]:
    start = [(candidate, figures, "the plan before: ") for candidate, figures in progress.found if candidate == progress.start]
    front = [(candidate, figures, "") for candidate, figures in progress.front if candidate != progress.start]
    return [
        {"name": progress.number_of(candidate), "label": f"{word}{figures_text(figures)}: {candidate}"}
        for candidate, figures, word in (*start, *front)
        if candidate != chosen
    ]


def verify_act(progress: FindProgress, candidate: PlanCandidate, number: str) -> dict[str, Any]:
    if progress.asking is not None and progress.asking[0] == candidate:
        return act("Stop verifying", StopVerifyingGesture(), title="Keep the answers so far", focus="verify")
    return act("Verify with compilers", VerifyFoundGesture(number), title=_VERIFY_HINT, focus="verify")


def waiting_text(progress: FindProgress, candidate: PlanCandidate, stage: str = "") -> str:
    """Describe the pending compiler query for a candidate; empty without one."""
    if progress.asking is None or progress.asking[0] != candidate:
        return ""
    if progress.asking[1] == "partitioned":
        return "Asking XLA's partitioner…"
    hardware = candidate.hardware
    return f"Asking the compiler {f'of {hardware}' if hardware else 'of the attached devices'}: {stage}…"


def verified_block(progress: FindProgress, verified: VerifiedPlan) -> Block:
    columns = (
        Column(""),
        Column("step", number=True),
        Column("vs. planned", number=True),
        Column("memory", number=True),
        Column("vs. planned", number=True),
        Column("by"),
    )
    is_awaited = progress.asking is not None and str(progress.asking[0]) == verified.title
    rows = [_tier_row(verified, tier, is_awaited=is_awaited) for tier in ("planned", "partitioned", "compiled")]
    return block("Compiler results", columns, rows)


def _tier_row(verified: VerifiedPlan, tier: TierName, *, is_awaited: bool) -> Row:
    figures: tuple[tuple[FigureName, str], ...] = (("seconds", "seconds"), ("memory", "bytes"))
    is_awaited &= verified.tier(tier) == NOT_COMPILED
    cells = [cell for name, unit in figures for cell in _figure_cells(verified, tier, name, unit, is_awaited=is_awaited)]
    return row(tier, {"text": tier, "title": SAYS[tier]}, *cells, "" if is_awaited else _source_cell(verified, tier))


def _figure_cells(verified: VerifiedPlan, tier: TierName, figure: FigureName, unit: str, *, is_awaited: bool) -> tuple[Cell, Cell]:
    tier_figures = verified.tier(tier)
    value, difference = getattr(tier_figures, figure), verified.difference(figure, tier)
    if value is None:
        return {"text": "…" if is_awaited else "–", "tone": "muted"}, ""
    shown = tier_figure_text(value, unit)
    if tier == "planned":
        return shown, ""
    text = share_of_planned_text(difference)
    tone = "warn" if abs(difference or 0.0) >= FAR else "muted" if text == "same" else ""
    return {"text": shown, "tone": "strong"}, {"text": text, "tone": tone}


def _source_cell(verified: VerifiedPlan, tier: TierName) -> Cell:
    tier_figures, by = verified.tier(tier), _PLANNER if tier == "planned" else verified.tier(tier).compiler
    text = " ".join(filter(None, (f"{by}." if by and tier_figures.reason else by, reason_text(verified, tier))))
    return {"text": text, "tone": "" if tier_figures.reason else "muted", "wrap": True}


def _explanation_blocks(progress: FindProgress) -> list[Block]:
    explanation = progress.explanation
    if explanation is None:
        return []
    figures = progress.figures_of(explanation.end)
    ledger = [ledger_block(explanation.ledger)] if explanation.ledger else []
    return [*ledger, *([what_if_block(progress, explanation.changes, figures)] if figures and explanation.changes else [])]


def ledger_block(ledger: Ledger) -> Block:
    """Build the ledger from one plan to another, one decision a line; the lines add up to the difference."""
    columns = (Column("from one plan to the other"), Column("step", number=True), Column("memory", number=True))
    rows = [_end_row("from", ledger.start, ledger.start_figures)]
    rows += [
        row(
            " ".join(line.decisions),
            _wrapped(f"{line.before} → {line.after}"),
            signed_cell(line.seconds, "s"),
            signed_cell(line.memory, "B"),
        )
        for line in ledger.lines
    ]
    rows.append(_end_row("to", ledger.end, ledger.end_figures))
    return block("Why this plan: each change was planned in turn, so the lines add up", columns, rows)


def _end_row(word: str, candidate: PlanCandidate, figures: Figures) -> Row:
    memory = {"text": format_bytes(int(figures.memory)), "tone": "strong"}
    shown = {"text": f"{word} {candidate}", "tone": "strong", "wrap": True}
    return row(word, shown, {"text": format_seconds(figures.seconds), "tone": "strong"}, memory)


def what_if_block(progress: FindProgress, changes: Sequence[Counterfactual], base: Figures) -> Block:
    """Build a table of single-decision variants: cost or saving, violated requirements, or why there is no such plan."""
    columns = (Column("what if it had"), Column("step", number=True), Column("memory", number=True), Column(""), Column(""))
    rows = [_change_row(progress, change, base) for change in changes[:MOST_CHANGES]]
    return block("Alternatives", columns, rows, rest_text(len(changes), MOST_CHANGES))


def _change_row(progress: FindProgress, each: Counterfactual, base: Figures) -> Row:
    if each.figures is None:
        reason = {"text": f"no plan: {each.reason}", "tone": "muted", "wrap": True}
        return row(each.change, _wrapped(each.change), "", "", reason, "")
    broken: Cell = {"text": f"violates {' and '.join(each.breaks)}", "tone": "bad"} if each.breaks else ""
    number = progress.number_of(each.candidate)
    return row(
        each.change,
        _wrapped(each.change),
        signed_cell(each.figures.seconds - base.seconds, "s"),
        signed_cell(each.figures.memory - base.memory, "B"),
        broken,
        buttons_cell({**act("Preview", ChooseFoundGesture(number)), "focus": f"choose {number}"}) if number else "",
    )


def _wrapped(text: str) -> Cell:
    return {"text": text, "wrap": True}


def signed_cell(value: float, unit: str) -> Cell:
    if not value:
        return {"text": "same", "tone": "muted"}
    shown = format_seconds(abs(value)) if unit == "s" else format_bytes(int(abs(value)))
    return {"text": f"{'+' if value > 0 else '−'}{shown}", "tone": "bad" if value > 0 else "good"}


def comparison_blocks(
    finder: Finder, chosen: PlanCandidate, report: Report, background: BackgroundQueries | None, *, is_present: bool
) -> list[Block]:
    """Compare the chosen plan with the present one, or with the start of the search if it is the present one."""
    origin = finder.progress.origin if is_present else None
    if origin == report.plan:
        return []
    title = "A: start of the search, B: current plan" if origin else "A: current plan, B: selected plan"
    name = f"found {chosen} {finder.progress.number if origin else ''}"
    try:
        compared = compute_in_background(background, report, name, lambda: _compare(finder, chosen, report, origin))
    except WorkbenchError as error:
        return [note_block(str(error))]
    if compared is None:
        return [note_block("Planning it…")]
    changes, *figures = diff_blocks(compared)[:2]
    blocks = [{**changes, "title": f"What it changes: {title}"} if changes["rows"] else changes]
    if compared.after.step_time is not None and compared.after.plan.pipeline is None:
        blocks.append(picture_block(step_time(compared.after), name="step time of the chosen plan"))
    return [*blocks, *figures]


def _compare(finder: Finder, chosen: PlanCandidate, report: Report, origin: Plan | None) -> PlanDiff:
    """Diff the present plan, or `origin`, with the chosen one; both as planned before XLA answers, as in the search."""
    diff = PlanDiff(analyze(origin or report.plan), analyze(finder.plan_of(chosen)))
    for figures in (diff.changes, diff.figures):  # computed here, in the background
        del figures
    return diff
