"""The Propagation tab: propagation step by step, conflicts, and the minimal layout with the same effect."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from workbench.analysis.minimal_layout import MinimalLayout, minimal_annotations
from workbench.core.sharding import Sharding
from workbench.core.text_tables import count_text
from workbench.errors import LayoutError, WorkbenchError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.reports.propagation import Propagation
from workbench.reports.propagation_records import AxisPropagation, Conflict, ShardedValue
from workbench.reports.propagation_step_text import rejection_text
from workbench.reports.report import Report
from workbench.visualize.propagation_graph import lay_out_rows, propagation_graph
from workbench.widgets.board.background_queries import BackgroundQueries, compute_in_background
from workbench.widgets.board.layer_folding import fold_paths, template
from workbench.widgets.gestures.setup_gestures import DecideGesture
from workbench.widgets.gestures.view_gestures import ExpandGesture, FewestGesture, WeighGesture
from workbench.widgets.tabs.table_blocks import (
    Block,
    Cell,
    Column,
    Opens,
    Paint,
    Row,
    act,
    block,
    buttons_cell,
    edit_button,
    edits_cell,
    find_edit,
    note_block,
    picture_block,
    rest_text,
    row,
)
from workbench.widgets.tabs.why_axis import move_line, place_cell, replay_of

MOST_ROWS = 120
MOST_CONFLICTS = 40
MOST_LINES = 4  # values listed for one step
FEW = 6  # conflicts whose edits are tried automatically
_SHORT = 4000  # propagation steps: trying an edit propagates again
_GLIDE = 80  # number of stops when the replay is played
NOTHING = (
    "The layout is empty, so nothing is propagated. Drop a dimension on a mesh axis above, or click a row of the graph to "
    "annotate its value. This view then shows the propagation step by step."
)
NO_RECORD = "This program was not lowered for the partitioner, so its propagation was not recorded."
PREPARING = "Computing the propagation: the partitioner runs again and records every step."
_PLACED_COLUMNS = (
    Column("sharded value"),
    Column("since", number=True, title="step of its last axis"),
    Column("dimensions"),
    Column("line"),
)
_CONFLICTS = (Column("wins"), Column("lost"), Column("where, and why"), Column("to resolve it the other way"))
_OVER = {"data_flow_edge": "the loop that carries it", "return": "the return of the step", "sharding_constraint": "its constraint"}
_FEWEST = (Column("statement"), Column("now"), Column("fewest"), Column("what it is needed for"))


@dataclass(frozen=True, slots=True)
class Replay:
    """User state: a step (`None`: the last), conflicts with requested edits, and the plan to minimise."""

    step: int | None = 0
    weighed: frozenset[str] = frozenset()
    fewest: Plan | None = None


def replay_blocks(
    report: Report, paint: Paint, chosen: Replay, background: BackgroundQueries | None = None, opened: frozenset[str] | None = None
) -> list[Block]:
    """Return the slider, the values sharded so far, the graph so far, conflicts, and the minimal layout."""
    if not report.plan.layout.statements and not report.source_annotations:
        return [note_block(NOTHING), *([_picture(report, 0, background, opened)] if report.graph.nodes else [])]
    try:
        replay = replay_of(report, background)
    except WorkbenchError as error:
        return [note_block(str(error))]
    if replay is None:
        return [waiting_block(PREPARING)]
    if not replay.values:
        return [note_block(NO_RECORD)]
    last = replay.axis_propagations[-1].step if replay.axis_propagations else 0
    step = last if chosen.step is None else min(chosen.step, last)
    shardings = replay.at(step)
    placed = _list_placed(replay, shardings)
    return [
        _slider(replay, step, last, len(placed), paint, _find_conflicts(report, replay, background) or ()),
        _picture(report, step, background, opened),
        _placed_block(replay, step, shardings, placed, paint),
        _conflicts(report, replay, chosen, background),
        _fewest(report, chosen, background),
    ]


def find_suggested_edit(gesture: DecideGesture, report: Report, background: BackgroundQueries) -> Edit:
    """Return an edit found for the present plan, by its text; raises `LayoutError` for any other."""
    edit = find_edit(gesture.edit, report, background.answers_of)
    if edit is None:
        raise LayoutError(f"`{gesture.edit[:80]}` was found for another plan.", ["see the current conflicts"])
    return edit


def waiting_block(text: str) -> Block:
    return {**note_block(""), "replay": {"waiting": text}}


def _slider(replay: Propagation, step: int, last: int, placed: int, paint: Paint, conflicts: Sequence[Conflict]) -> Block:
    moves = replay.steps[step - 1].axis_propagations if step else ()
    statements = {origin.statement or origin.kind for origin in replay.origins.values()}
    by_hand = f"By hand, before the first step: {count_text(len(statements), 'statement')} on {count_text(placed, 'value')}"
    lines = [_line(replay, move, paint) for move in moves[:MOST_LINES]]
    step_text = f"step {step} of {last:,}, {move_line(replay, moves[0])}" if moves else by_hand
    more = f"and {count_text(len(moves) - MOST_LINES, 'place')} more at once" if len(moves) > MOST_LINES else ""
    state = {
        "step": step,
        "last": last,
        "stride": max(1, last // _GLIDE),
        "lines": lines,
        "more": more if moves else "",
        "start": "" if moves else by_hand + ".",
        "said": step_text.replace("`", ""),
        "conflicts": count_text(len(conflicts), "conflict") if conflicts else "",
    }
    return {**note_block("" if last else "Nothing is propagated from here."), "replay": state}


def _line(replay: Propagation, move: AxisPropagation, paint: Paint) -> dict[str, Any]:
    source, target = replay.values[move.source], replay.values[move.target]
    return {
        "direction": move.direction,
        "axis": paint.axes((move.axis,))["axes"][0],
        "from": place_cell(source, move.source_dim)["path"],
        "to": place_cell(target, move.target_dim)["path"],
        "over": ", ".join(filter(None, (_OVER.get(move.kind, move.kind), move.line))),
        "subject": target.path,
    }


def _list_placed(replay: Propagation, shardings: Sequence[Sharding]) -> list[int]:
    waiting = _waiting(replay, shardings)
    return [n for n, site in enumerate(replay.values) if shardings[n].axes and (_is_shown(site) or n in waiting)]


def _placed_block(replay: Propagation, step: int, shardings: Sequence[Sharding], placed: Sequence[int], paint: Paint) -> Block:
    """Build a table of the sharded values, newest first; equal ones of repeated layers share a row."""
    since = _since(replay, step)
    groups: dict[object, list[int]] = {}
    for number in placed:
        site = replay.values[number]
        groups.setdefault((site.role, template(site.path), site.kind, site.shape, shardings[number]), []).append(number)
    ranked = sorted(groups.values(), key=lambda group: -max(since.get(number, 0) for number in group))
    rows = [_site_row(replay, group, shardings, since, step, paint) for group in ranked[:MOST_ROWS]]
    shown = sum(map(_is_shown, replay.values))
    count = f"{len(placed):,} of {shown:,} arguments, values and results are sharded so far, newest first."
    return block("So far", _PLACED_COLUMNS, rows, " ".join(filter(None, (count, rest_text(len(ranked), MOST_ROWS)))))


def _waiting(replay: Propagation, shardings: Sequence[Sharding]) -> frozenset[int]:
    """Return the constraints on values without an axis yet, which a later step applies."""
    by_hand = {point.value for point in replay.origins if replay.values[point.value].kind == "sharding_constraint"}
    places = {(replay.values[number].path, replay.values[number].shape): number for number in by_hand}
    for site, sharding in zip(replay.values, shardings, strict=True) if places else ():
        if sharding.axes and site.kind != "sharding_constraint":
            places.pop((site.path, site.shape), None)
    return frozenset(places.values())


def _is_shown(site: ShardedValue) -> bool:
    return bool(site.path) and (site.role != "value" or site.kind not in ("data_flow_edge", "sharding_constraint"))


def _since(replay: Propagation, step: int) -> dict[int, int]:
    made = bisect_right(replay.axis_propagations, step, key=attrgetter("step"))
    reached = {replay.one[move.target]: move.step for move in replay.axis_propagations[:made]}
    return {number: reached[one] for number, one in enumerate(replay.one) if one in reached}


def _site_row(
    replay: Propagation, group: list[int], shardings: Sequence[Sharding], since: Mapping[int, int], step: int, paint: Paint
) -> Row:
    site, sharding = replay.values[group[0]], shardings[group[0]]
    newest = max(since.get(number, 0) for number in group)
    path = fold_paths(list(dict.fromkeys(replay.values[number].path for number in group))).label
    label = f"result {path}" if site.role == "result" and not path.startswith("result") else path
    many = f"×{len(group)}" if len(group) > 1 else ""
    text: Cell = {"text": f"{newest:,}" if newest else "by hand", "tone": "strong" if newest == step and step else ""}
    if site.role != "result":
        text = {**text, "why": f"{'tensor' if site.role == 'argument' else 'value'} {site.path}"}
    return {
        **row(
            f"{site.role} {site.path} {site.kind} {sharding}",
            {"path": label, "count": many, "title": f"{site.kind} · {site.path}"},
            text,
            paint.dims(site.dims, site.shape, sharding),
            {"text": site.source, "tone": "muted"},
            subject=site.path if site.role != "result" else "",
        ),
        "tone": "fresh" if newest and newest == step else "",
    }


def _picture(report: Report, step: int, background: BackgroundQueries | None, opened: frozenset[str] | None) -> Block:
    """Draw the graph up to a step. Its layout, the slowest part, is computed once in the background."""
    graph_rows = compute_in_background(
        background, report, f"graph {sorted(opened) if opened is not None else ''}", lambda: lay_out_rows(report, opened)
    )
    if graph_rows is None:
        return {**waiting_block("Reading the graph."), "title": "On the graph"}
    shown = picture_block(propagation_graph(report, step, graph_rows), name="propagation", opens=Opens(ExpandGesture, "scope"))
    return {**shown, "title": "On the graph"}


def _conflicts(report: Report, replay: Propagation, chosen: Replay, background: BackgroundQueries | None) -> Block:
    conflicts = _find_conflicts(report, replay, background)
    if conflicts is None:
        return {**block("Conflicts", (), []), "note": "Looking for rejected axes…"}
    is_quick = len(conflicts) <= FEW and len(replay.axis_propagations) <= _SHORT
    rows = [_conflict_row(report, replay, conflict, chosen, background, is_quick=is_quick) for conflict in conflicts[:MOST_CONFLICTS]]
    if not rows:
        return block("Conflicts", (), [], "None: no axis was rejected.")
    return block("Conflicts", _CONFLICTS, rows, rest_text(len(conflicts), MOST_CONFLICTS))


def _find_conflicts(report: Report, replay: Propagation, background: BackgroundQueries | None) -> tuple[Conflict, ...] | None:
    return compute_in_background(background, report, "conflicts", lambda: replay.conflicts)


def _conflict_row(
    report: Report, replay: Propagation, conflict: Conflict, chosen: Replay, background: BackgroundQueries | None, *, is_quick: bool
) -> Row:
    key = f"{conflict.winner} {conflict.loser} {conflict.reason}"[:2000]
    edits: Cell
    if is_quick or key in chosen.weighed:
        edits = edits_cell(report, conflict, background)
    else:
        edits = buttons_cell(act("Try edits", WeighGesture(key), title="Each edit is tried; this takes a moment"))
    rejected = conflict.first
    where = place_cell(replay.values[rejected.wanted.value], rejected.wanted.dim)["path"]
    places = f" and {count_text(len(conflict.rejections) - 1, 'more place')}" if len(conflict.rejections) > 1 else ""
    why = rejection_text(replay, rejected).partition(": ")[2]
    return row(
        key,
        {"text": str(conflict.winner), "wrap": True},
        {"text": str(conflict.loser), "wrap": True},
        {"text": f"`{rejected.wanted.axis}` at {where}{places}: {why}", "wrap": True},
        edits,
    )


def _fewest(report: Report, chosen: Replay, background: BackgroundQueries | None) -> Block:
    title, plan = "Minimal annotations", report.plan
    count = count_text(len(plan.layout.statements), "statement")
    if chosen.fewest is not plan:
        ask = buttons_cell(act("Find a minimal layout", FewestGesture()))
        text = {"text": f"{count} now. Find the fewest that keep the sharding of every value.", "wrap": True}
        return block(title, (Column(""), Column("")), [row("ask", text, ask)])
    try:
        minimal = compute_in_background(background, report, "fewest", lambda: minimal_annotations(plan))
    except WorkbenchError as error:
        return block(title, (), [], str(error))
    if minimal is None:
        return {**waiting_block("Removing one statement after the other to see the effect."), "title": title}
    return _fewest_block(title, report, minimal)


def _fewest_block(title: str, report: Report, found: MinimalLayout) -> Block:
    now, fewest = report.plan.layout.statements, found.layout.statements
    proof = "no other choice of rules needs fewer." if found.is_fewest else "removing any of them changes a sharding."
    if len(fewest) >= len(now):
        return block(title, (), [], f"{count_text(len(now), 'statement')} now, the fewest found: {proof}")
    rows = list(_statement_rows(now, found))
    rows.append(row("apply", "", "", "", buttons_cell(edit_button(found.edit, f"Make these {len(fewest)} the layout"))))
    sentence = f"{count_text(len(fewest), 'statement')} in place of {len(now)} give {found.placed:,} values their present shardings"
    return block(title, _FEWEST, rows, f"{sentence}; {proof}")


def _statement_rows(now: Sequence[str], found: MinimalLayout) -> Iterator[Row]:
    needed = {requirement.statement: requirement for requirement in found.needed}
    for statement in dict.fromkeys((*found.layout.statements, *now)):
        is_kept = statement in found.layout.statements
        need = needed.get(statement)
        sentence = (
            f"without it `{need.changed}` is sharded {need.after}, not {need.before}"
            if need
            else ""
            if is_kept
            else "nothing: it is redundant"
        )
        yield row(
            statement,
            {"text": statement, "tone": "strong" if is_kept else "muted"},
            "yes" if statement in now else "–",
            "yes" if is_kept else "–",
            {"text": sentence, "wrap": True, "tone": "" if is_kept else "muted"},
        )
