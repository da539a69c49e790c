"""The tab *Find*: the form, the picture of what was found, the front as a table, the chosen plan and why it stands where it stands."""

from collections.abc import Sequence
from typing import Any

from workbench.analysis.analyze import analyze
from workbench.analysis.plan_diff import PlanDiff
from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.search.explain import Counterfactual, Ledger
from workbench.search.plan_candidate import NO_ZERO, PlanCandidate
from workbench.search.search_figures import Figures
from workbench.units import format_bytes, format_dollars, format_seconds
from workbench.visualize import step_time
from workbench.widgets.board.background_queries import BackgroundQueries, compute_in_background
from workbench.widgets.find.find_controls import controls_state
from workbench.widgets.find.find_progress import FindProgress
from workbench.widgets.find.finder import Finder
from workbench.widgets.find.found_pictures import MOST_FRONT, front_pictures, present_figures, verified_blocks, verify_act, waiting_text
from workbench.widgets.find.found_text import brief_figures, found_text, long_figures, parts_text, pipeline_text, traced_text
from workbench.widgets.gestures.panel_gestures import ChooseFoundGesture, ExplainFoundGesture, TakeFoundGesture
from workbench.widgets.gestures.view_gestures import UndoGesture
from workbench.widgets.tabs.board_tabs import NO_SEARCH
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
_EXPLAINING = "Planning each change and each single-decision variant…"


def find_blocks(finder: Finder, report: Report, background: BackgroundQueries | None) -> list[Block]:
    """The tab for the present plan, whose report this is."""
    if not finder.can_find:
        return [note_block(NO_SEARCH)]
    progress = finder.progress
    now = present_figures(progress, report, background)
    blocks = [{**note_block(""), "find": controls_state(finder, report.plan, now)}]
    if not progress.front:
        return blocks
    blocks += front_pictures(finder, report, now, background)
    if progress.chosen is None:
        return [*blocks, _front_table(progress)]
    is_present = bool(_is_present(finder, progress.chosen, report, background))
    card = {**note_block(""), "found": _card(finder, progress.chosen, is_present=is_present)}
    verified = verified_blocks(finder.verifier.progress, progress.chosen)
    blocks += [card, *verified, *_explanation_blocks(progress), _front_table(progress)]
    return [*blocks, *_comparison_blocks(finder, progress.chosen, report, background, is_present=is_present)]


def _is_present(finder: Finder, chosen: PlanCandidate, report: Report, background: BackgroundQueries | None) -> bool | None:
    """Whether the chosen plan is the present one; `None` as long as that is worked out."""

    def work() -> bool:
        try:
            return finder.plan_of(chosen) == report.plan
        except WorkbenchError:
            return False

    return compute_in_background(background, report, f"is present {chosen}", work)


def _comparison_blocks(
    finder: Finder, chosen: PlanCandidate, report: Report, background: BackgroundQueries | None, *, is_present: bool
) -> list[Block]:
    """What the chosen plan changes of the present one, or of the one that the search began from, and the parts of its step."""
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
    """From the present plan, or from an `origin`, to the chosen one; both as they are planned before XLA is asked, as the search does."""
    diff = PlanDiff(analyze(origin or report.plan), analyze(finder.plan_of(chosen)))
    for each in (diff.changes, diff.figures):  # computed here, in the background
        del each
    return diff


def _card(finder: Finder, chosen: PlanCandidate, *, is_present: bool) -> dict[str, Any]:
    progress, verification = finder.progress, finder.verifier.progress
    number, figures = progress.number_of(chosen), progress.figures_of(chosen)
    take = act("Use this plan", TakeFoundGesture(number), title="Apply as one step of the history (undo to go back)")
    return {
        "title": found_text(chosen),
        "text": long_figures(figures) if figures else "",
        "parts": parts_text(figures) if figures else "",
        "present": is_present,
        "acts": [
            act("Undo", UndoGesture(), title="Back to the previous plan") if is_present else take,
            verify_act(verification, chosen, number),
            act("Why this one?", ExplainFoundGesture(number), title="Ledger from the nearest rival, and the effect of each decision"),
        ],
        "than": {
            "label": "against",
            "verb": ExplainFoundGesture.verb,
            "plan": number,
            "value": progress.number_of(progress.than) if progress.than else "",
            "options": _list_rivals(progress, chosen),
        },
        "waiting": " ".join(filter(None, (_EXPLAINING if progress.asked else "", waiting_text(verification, chosen)))),
    }


def _list_rivals(progress: FindProgress, chosen: PlanCandidate) -> list[dict[str, str]]:
    """What the chosen plan can be held against: the plan that the search began from, if it was planned, and the rest of the front."""
    start = [(each, figures, "the plan before: ") for each, figures in progress.found if each == progress.start]
    front = [(each, figures, "") for each, figures in progress.front if each != progress.start]
    return [
        {"name": progress.number_of(each), "label": f"{word}{brief_figures(figures)}: {found_text(each)}"}
        for each, figures, word in (*start, *front)
        if each != chosen
    ]


def _explanation_blocks(progress: FindProgress) -> list[Block]:
    explanation = progress.explanation
    if explanation is None:
        return []
    figures = progress.figures_of(explanation.end)
    ledger = [ledger_block(explanation.ledger)] if explanation.ledger else []
    return [*ledger, *([what_if_block(progress, explanation.changes, figures)] if figures and explanation.changes else [])]


def ledger_block(ledger: Ledger) -> Block:
    """The way from one plan to another, decision by decision; the lines add up to the difference."""
    columns = (Column("from one plan to the other"), Column("step", number=True), Column("memory", number=True))
    rows = [_end_row("from", ledger.start, ledger.start_figures)]
    rows += [
        row(
            " ".join(each.decisions),
            _wrapped(f"{each.before} → {each.after}"),
            signed_cell(each.seconds, "s"),
            signed_cell(each.memory, "B"),
        )
        for each in ledger.lines
    ]
    rows.append(_end_row("to", ledger.end, ledger.end_figures))
    return block("Why this plan: each change was planned in turn, so the lines add up", columns, rows)


def _end_row(word: str, candidate: PlanCandidate, figures: Figures) -> Row:
    memory = {"text": format_bytes(int(figures.memory)), "tone": "strong"}
    shown = {"text": f"{word} {found_text(candidate)}", "tone": "strong", "wrap": True}
    return row(word, shown, {"text": format_seconds(figures.seconds), "tone": "strong"}, memory)


def what_if_block(progress: FindProgress, changes: Sequence[Counterfactual], base: Figures) -> Block:
    """Every decision changed alone: what it costs or saves, what it breaks, or why it is no plan."""
    columns = (Column("what if it had"), Column("step", number=True), Column("memory", number=True), Column(""), Column(""))
    rows = [_change_row(progress, each, base) for each in changes[:MOST_CHANGES]]
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


def _front_table(progress: FindProgress) -> Block:
    """The plans that none beats, the fastest first."""
    has_price = any(figures.dollars is not None for _, figures in progress.front)
    several = len({figures.devices for _, figures in progress.front}) > 1
    columns = (
        Column("step", number=True),
        Column("memory", number=True),
        *([Column("devices", number=True)] if several else []),
        *([Column("1,000 steps", number=True)] if has_price else []),
        *(Column(each) for each in ("mesh", "layout", "ZeRO", "remat", "pipeline")),
        Column(""),
    )
    shown = [*progress.front[:MOST_FRONT], *(present := _present_entry(progress))]
    rows = [_front_row(progress, each, figures, several=several, has_price=has_price) for each, figures in shown]
    return block(
        f"Pareto front: no plan found is better in both{'; and the present plan' * bool(present)}",
        columns,
        rows,
        rest_text(len(progress.front), MOST_FRONT),
    )


def _present_entry(progress: FindProgress) -> list[tuple[PlanCandidate, Figures]]:
    """The plan that the search began from, where it was planned and is not on the front: what others are compared with is in sight."""
    is_shown = progress.start in [each for each, _ in progress.front[:MOST_FRONT]]
    return [] if is_shown else [(each, figures) for each, figures in progress.found if each == progress.start]


def _front_row(progress: FindProgress, each: PlanCandidate, figures: Figures, *, several: bool, has_price: bool) -> Row:
    number, best = progress.number_of(each), progress.state and progress.state.best and progress.state.best[0] == each
    tone = "strong" if best else ""
    pipeline = _wrapped(pipeline_text(each)) if each.schedule else {"text": "–", "tone": "muted"}
    acts = [
        {**act("Previewed" if each == progress.chosen else "Preview", ChooseFoundGesture(number)), "focus": f"choose {number}"},
        {**act("Apply", TakeFoundGesture(number)), "focus": f"take {number}"},
    ]
    return row(
        number,
        {"text": format_seconds(figures.seconds), "tone": tone},
        {"text": format_bytes(int(figures.memory)), "tone": tone},
        *([f"{figures.devices:,}"] if several else []),
        *(["–" if figures.dollars is None else format_dollars(figures.dollars)] if has_price else []),
        {**_wrapped(f"{'present plan: ' if each == progress.start else ''}{each.describe('mesh')}"), "tone": tone},
        _wrapped(each.layout),
        "–" if each.zero == NO_ZERO else each.describe("zero").removeprefix("ZeRO "),
        _wrapped(traced) if (traced := traced_text(each)) != each.remat else each.remat,
        pipeline,
        buttons_cell(*acts),
    )


def _wrapped(text: str) -> Cell:
    return {"text": text, "wrap": True}


def signed_cell(value: float, unit: str) -> Cell:
    """A difference with its sign; less is better."""
    if not value:
        return {"text": "same", "tone": "muted"}
    shown = format_seconds(abs(value)) if unit == "s" else format_bytes(int(abs(value)))
    return {"text": f"{'+' if value > 0 else '−'}{shown}", "tone": "bad" if value > 0 else "good"}
