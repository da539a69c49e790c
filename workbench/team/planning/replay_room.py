"""What was done in a room, step by step, from its log: the sentence of each edit, and the figures of the plan after it."""

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.analysis.analyze import analyze
from workbench.documents import parse_plan
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.team.planning.describe_plan import describe_plan, description_record, figures_of
from workbench.team.planning.room_log import RoomHistory, RoomLogRecord
from workbench.team.rooms.room_records import MOVES

MOST_STEPS = 300
"""Of a longer log the first ones are left out."""


def replay_room(document: str, log: Sequence[Mapping[str, Any]], allow: tuple[str, ...] = ()) -> dict[str, Any]:
    """The steps, and the present plan as the gallery keeps it. Raises `WorkbenchError` for a log that cannot be replayed."""
    first = parse_plan(document, "The plan of this room", allow)
    history, made = RoomHistory.of(first), [("it begins", first)]
    for each in log:
        record = RoomLogRecord(each["kind"], each["author"], each["body"])
        history = history.with_record(record, allow, first.program)
        if record.kind in MOVES:
            made.append((history.words_of(record), history.nodes[history.head].plan))
    present = made[-1][1]
    shown = made[-MOST_STEPS:]
    reports = {id(plan): analyze(plan) for plan in {id(plan): plan for _, plan in shown}.values()}
    steps = [_step(words, plan, reports[id(plan)]) for words, plan in shown]
    return {"steps": steps, "present": description_record(describe_plan(present, reports[id(present)]))}


def _step(words: str, plan: Plan, report: Report) -> dict[str, Any]:
    return {"text": words, "name": plan.name, "mesh": str(plan.mesh), "layout": str(plan.layout), "figures": dict(figures_of(report))}
