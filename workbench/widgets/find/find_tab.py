"""The tab *Find*: the form, the picture of what was found, the front as a table, the chosen plan and why it stands where it stands."""

from collections.abc import Sequence
from typing import Any

from workbench.analysis.analyze import analyze
from workbench.analysis.plan_diff import PlanDiff
from workbench.errors import WorkbenchError
from workbench.reports.report import Report
from workbench.search.candidates import NO_ZERO, PlanCandidate
from workbench.search.explain import Counterfactual, Ledger
from workbench.search.figures import Figures
from workbench.search.requirements import AtMost
from workbench.units import format_bytes, format_dollars, format_seconds
from workbench.visualize import found_plans, step_time
from workbench.visualize.found_plans import FoundPlan, FrontSigns, Up
from workbench.widgets.board.background_queries import BackgroundQueries, compute_in_background
from workbench.widgets.find.find_controls import controls_state
from workbench.widgets.find.find_progress import FindProgress
from workbench.widgets.find.finder import Finder
from workbench.widgets.find.found_text import brief_figures, found_text, long_figures, mesh_text, pipeline_text
from workbench.widgets.gestures.finding import ChooseFoundGesture, ExplainFoundGesture, TakeFoundGesture
from workbench.widgets.tabs.blocks import Block, Cell, Column, Opens, Row, block, note_block, picture_block, rest_text, row
from workbench.widgets.tabs.edit_buttons import act, buttons_cell
from workbench.widgets.tabs.history_diff import diff_blocks
from workbench.widgets.tabs.tabs import NO_SEARCH

MOST_FRONT = 24
MOST_CHANGES = 30


def find_blocks(finder: Finder, report: Report, background: BackgroundQueries | None) -> list[Block]:
    """The tab for the present plan, whose report this is."""
    if not finder.can_find:
        return [note_block(NO_SEARCH)]
    progress = finder.progress
    blocks = [{**note_block(""), "find": controls_state(finder, report.plan)}]
    if not progress.front:
        return blocks
    blocks += _pictures(finder, report, background)
    if progress.chosen is None:
        return [*blocks, _front_table(progress)]
    blocks += [{**note_block(""), "found": _card(progress, progress.chosen)}, *_explanation_blocks(progress), _front_table(progress)]
    return [*blocks, *_comparison_blocks(finder, progress.chosen, report, background)]


def _pictures(finder: Finder, report: Report, background: BackgroundQueries | None) -> list[Block]:
    progress, front = finder.progress, {candidate for candidate, _ in finder.progress.front}
    more = _changes_of_front(finder, report, background)
    found = [
        FoundPlan(str(place), found_text(each), figures, each in front, more.get(each, ""))
        for place, (each, figures) in enumerate(progress.found)
    ]
    chosen = progress.number_of(progress.chosen) if progress.chosen else ""
    state = progress.state
    least = state.least if state and state.objective == "seconds" and not state.is_proved else None
    now = Figures(report.seconds, report.peak, report.mesh.size) if report.seconds else None
    limits = {each.figure: each.limit for each in progress.requirements if isinstance(each, AtMost)}
    pictures: list[Block] = []
    for up in _sides(progress):
        signs = FrontSigns(chosen, now if up != "dollars" else None, limits.get(up), least)
        hint = "Click a plan to see what it changes. What lies above the line and right of it is beaten by a plan upon it."
        opens = Opens(ChooseFoundGesture, "plan")
        pictures.append(picture_block(found_plans(found, up, signs), "" if pictures else hint, f"front by {up}", opens))
    return pictures


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


def _comparison_blocks(finder: Finder, chosen: PlanCandidate, report: Report, background: BackgroundQueries | None) -> list[Block]:
    """What the chosen plan changes of the present one, and the parts of its step."""
    try:
        compared = compute_in_background(background, report, f"found {chosen}", lambda: _compare(finder, chosen, report))
    except WorkbenchError as error:
        return [note_block(str(error))]
    if compared is None:
        return [note_block("Planning it…")]
    changes, *figures = diff_blocks(compared)[:2]
    blocks = [{**changes, "title": "What it changes: A is the present plan, B the chosen one"} if changes["rows"] else changes]
    if compared.after.step_time is not None and compared.after.plan.pipeline is None:
        blocks.append(picture_block(step_time(compared.after), name="step time of the chosen plan"))
    return [*blocks, *figures]


def _compare(finder: Finder, chosen: PlanCandidate, report: Report) -> PlanDiff:
    diff = PlanDiff(report, analyze(finder.plan_of(chosen)))
    for each in (diff.changes, diff.figures):  # computed here, in the background
        del each
    return diff


def _card(progress: FindProgress, chosen: PlanCandidate) -> dict[str, Any]:
    number, figures = progress.number_of(chosen), progress.figures_of(chosen)
    others = [
        {"name": progress.number_of(each), "label": f"{brief_figures(other)}: {found_text(each)}"}
        for each, other in progress.front
        if each != chosen
    ]
    return {
        "title": found_text(chosen),
        "text": long_figures(figures) if figures else "",
        "acts": [
            act("Take this plan", TakeFoundGesture(number), title="As one step of the history, which undo takes back"),
            act("Why this one?", ExplainFoundGesture(number), title="The ledger from its nearest rival, and what each decision does"),
        ],
        "than": {
            "label": "against",
            "verb": ExplainFoundGesture.verb,
            "plan": number,
            "value": progress.number_of(progress.than) if progress.than else "",
            "options": others,
        },
        "waiting": "Planning every step of the way, and every decision changed alone…" if progress.asked else "",
    }


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
    return block("Why this one: every step on the way was planned, so the lines add up", columns, rows)


def _end_row(word: str, candidate: PlanCandidate, figures: Figures) -> Row:
    memory = {"text": format_bytes(int(figures.memory)), "tone": "strong"}
    shown = {"text": f"{word} {found_text(candidate)}", "tone": "strong", "wrap": True}
    return row(word, shown, {"text": format_seconds(figures.seconds), "tone": "strong"}, memory)


def what_if_block(progress: FindProgress, changes: Sequence[Counterfactual], base: Figures) -> Block:
    """Every decision changed alone: what it costs or saves, what it breaks, or why it is no plan."""
    columns = (Column("what if it had"), Column("step", number=True), Column("memory", number=True), Column(""), Column(""))
    rows = [_change_row(progress, each, base) for each in changes[:MOST_CHANGES]]
    return block("What if instead", columns, rows, rest_text(len(changes), MOST_CHANGES))


def _change_row(progress: FindProgress, each: Counterfactual, base: Figures) -> Row:
    if each.figures is None:
        reason = {"text": f"no plan: {each.reason}", "tone": "muted", "wrap": True}
        return row(each.change, _wrapped(each.change), "", "", reason, "")
    broken: Cell = {"text": f"does not keep {' and '.join(each.breaks)}", "tone": "bad"} if each.breaks else ""
    number = progress.number_of(each.candidate)
    return row(
        each.change,
        _wrapped(each.change),
        signed_cell(each.figures.seconds - base.seconds, "s"),
        signed_cell(each.figures.memory - base.memory, "B"),
        broken,
        buttons_cell({**act("Choose", ChooseFoundGesture(number)), "focus": f"choose {number}"}) if number else "",
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
    rows = [_front_row(progress, each, figures, several=several, has_price=has_price) for each, figures in progress.front[:MOST_FRONT]]
    return block("The front: no plan found is better in both", columns, rows, rest_text(len(progress.front), MOST_FRONT))


def _front_row(progress: FindProgress, each: PlanCandidate, figures: Figures, *, several: bool, has_price: bool) -> Row:
    number, best = progress.number_of(each), progress.state and progress.state.best and progress.state.best[0] == each
    tone = "strong" if best else ""
    pipeline = pipeline_text(each) or {"text": "–", "tone": "muted"}
    acts = [
        {**act("Chosen" if each == progress.chosen else "Choose", ChooseFoundGesture(number)), "focus": f"choose {number}"},
        {**act("Take", TakeFoundGesture(number)), "focus": f"take {number}"},
    ]
    return row(
        number,
        {"text": format_seconds(figures.seconds), "tone": tone},
        {"text": format_bytes(int(figures.memory)), "tone": tone},
        *([f"{figures.devices:,}"] if several else []),
        *(["–" if figures.dollars is None else format_dollars(figures.dollars)] if has_price else []),
        {"text": mesh_text(each), "tone": tone},
        each.layout,
        "–" if each.zero == NO_ZERO else each.describe("zero").removeprefix("ZeRO "),
        each.remat,
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
