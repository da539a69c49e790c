"""Records the states of a board that a few moves reach, with tabs and answers, for a page without Python."""

import base64
import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from html import escape
from typing import Any

from workbench.core.program import Program
from workbench.errors import WorkbenchError
from workbench.exercises import Exercise, PlanQuestion
from workbench.pipeline.balance import apply_edit
from workbench.plan.edits import Edit, SetOffload, SetPrecision, SetRemat
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.session.plan_history import Session
from workbench.widgets.board.board import Board
from workbench.widgets.board.board_host import Host
from workbench.widgets.board.figure_changes import figure_states
from workbench.widgets.board.gesture_edits import edit_of
from workbench.widgets.board.key_figures import figures
from workbench.widgets.board.tier_marks import Figure
from workbench.widgets.exercise.exercise_panel import verdict_state
from workbench.widgets.front_end import recorded_script
from workbench.widgets.gestures.gesture_codec import read_gesture
from workbench.widgets.recorded.recorded_moves import MOVE_FIELDS, Gesture, move_key, moves_of

TABS = ("tensors", "communication")
STAGE_TABS = ("pipeline",)
"""Tabs of a question that may change only the pipeline."""
ASKED = ("figure memory", "figure sent", "figure flops", "figure duplication", "figure predicted")
"""`Why?` questions that a recording answers."""
MOST_STATES = 48
MOST_PACKED, MOST_WITH_PICTURES, MOST_WITH_WHYS = 88 << 10, 128 << 10, 136 << 10
"""Limits of a recording in gzipped bytes, beyond which no state, then no picture, then no answer to `Why?` is added."""
NOT_DRAWN = "This recording does not include the picture."
_OWN = ("answer", "told", "seq", "revision")
"""Entries that the page itself sets."""


@dataclass
class BoardRecording:
    """States of a board, the initial one first.

    A state has its `board`, `tables` by tab, `recipes`, answers to `whys`, `moves` by `move_key`, and the verdict of
    Check. A move leads `to` a state and has the entries `shown` after it, or a `refusal`. Parts are indices into
    `pool`, which holds each list and table once; a nested one is `{"$": index}`.
    """

    states: list[dict[str, Any]] = field(default_factory=list)
    pool: list[Any] = field(default_factory=list)
    size: int = 0
    """Gzipped bytes of the pool."""
    _known: dict[str, int] = field(default_factory=dict, repr=False)
    _packer: Any = field(default_factory=lambda: zlib.compressobj(9), repr=False)

    def keep(self, value: Any) -> int:
        """Add a value to the pool and return its index."""
        packed = self._keep_inner(value)
        text = json.dumps(packed, separators=(",", ":"), ensure_ascii=False)
        if text not in self._known:
            self._known[text] = len(self.pool)
            self.pool.append(packed)
            self.size += len(self._packer.compress(text.encode()))
        return self._known[text]

    def _keep_inner(self, value: Any) -> Any:
        """Replace each nested list and table by its index, since states differ in few of them."""
        if isinstance(value, Mapping):
            return {str(key): self._keep_reference(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._keep_reference(inner) for inner in value]
        return value

    def _keep_reference(self, value: Any) -> Any:
        return {"$": self.keep(value)} if isinstance(value, Mapping | list | tuple) and value else value

    def keep_part(self, part: Mapping[str, Any]) -> dict[str, int]:
        """Add each entry of a part to the pool; most are those of the state before."""
        return {key: self.keep(value) for key, value in part.items() if key not in _OWN}

    def record(self) -> dict[str, Any]:
        """Return the recording as plain values."""
        return {"states": self.states, "pool": self.pool, "fields": MOVE_FIELDS}


def record_board(
    plan: Plan, moves: int = 2, exercise: Exercise | None = None, question: str = "", tabs: Sequence[str] = ()
) -> BoardRecording:
    """Record the states within `moves` moves of a plan, up to `MOST_PACKED` bytes or `MOST_STATES` states.

    States that meet the most goals are extended first. Pictures follow up to `MOST_WITH_PICTURES` bytes, then answers
    to `Why?` up to `MOST_WITH_WHYS`. Moves are drops, or the changes that the question allows; states of equal plans
    are shared. Raises `WorkbenchError` for an unknown question.
    """
    recorder = _Recorder(exercise, question, tuple(tabs))
    recorder.add(plan)
    ends = [0]
    for _ in range(moves):
        ends = sorted(ends, key=recorder.promise)
        ends = [made for is_round in (True, False) for number in ends for made in recorder.go_on(number, is_round=is_round)]
    for number in range(len(recorder.made.states)):
        recorder.go_on(number, is_new=False)
    recorder.draw()
    recorder.answer_whys()
    return recorder.made


class _Recorder:
    """The recording under construction; each state is identified by its plan and has a board."""

    def __init__(self, exercise: Exercise | None, question: str, tabs: tuple[str, ...]) -> None:
        self.made = BoardRecording()
        chosen = (exercise[question] if question else exercise.questions[0]) if exercise else None
        self._exercise, self._question = exercise, question
        self._asked = chosen if isinstance(chosen, PlanQuestion) else None
        self._what: tuple[str, ...] = self._asked.may_change if self._asked else ("layout",)
        self._tabs = tabs or (STAGE_TABS if self._what == ("pipeline",) else TABS)
        self._boards: list[_Board] = []
        self._offered: list[list[Gesture]] = []
        self._dropped: list[str] = []
        self._numbers: dict[Plan, int] = {}
        self._traced: dict[tuple[Any, ...], Program] = {}

    def promise(self, number: int) -> tuple[int, float]:
        board = self._boards[number]
        return board.missed, board.session.report.seconds or 0.0

    def add(self, plan: Plan, dropped: str = "") -> int:
        """Add the state of a plan; `dropped` is the last moved dimension. Raises `WorkbenchError`."""
        board, made = _Board(plan, self._exercise, self._question), self.made
        board.open(self._tabs[0])
        state: dict[str, Any] = {"board": made.keep_part(board.board), "live": made.keep_part(board.shown["live"]), "moves": {}}
        state["verdict"] = made.keep(self._verdict(board.session.report))
        state["tables"] = {tab: made.keep_part(_without_pictures(board.open(tab))) for tab in self._tabs}
        state["whys"] = {}
        recipes = board.recipes() if self._asked and "layout" in self._what else None
        if recipes:
            state["recipes"] = made.keep(recipes)
        stages = board.stages() if "pipeline" in self._what else None
        self._offered.append(moves_of(board.board, recipes, stages, self._what))
        self._boards.append(board)
        self._dropped.append(dropped)
        made.states.append(state)
        number = self._numbers[plan] = len(made.states) - 1
        return number

    def go_on(self, number: int, *, is_new: bool = True, is_round: bool = False) -> list[int]:
        """Try each move from a state, or only the rounds, and return the states added if `is_new`."""
        moves = self.made.states[number]["moves"]
        before = len(self.made.states)
        for gesture in self._offered[number]:
            rounds = gesture["verb"] == "prioritize"
            if (is_round and not rounds) or (rounds and self._dropped[number] not in ("", gesture["dim"])):
                continue
            if gesture["verb"] == "recipe" and not is_new:
                continue
            if (key := move_key(gesture)) not in moves and (place := self._place(number, gesture, is_new=is_new)) is not None:
                moves[key] = place
        return list(range(before, len(self.made.states)))

    def _place(self, number: int, gesture: Gesture, *, is_new: bool) -> dict[str, Any] | None:
        """Return the target of a move; `None` if it is not recorded."""
        board = self._boards[number]
        try:
            edit = edit_of(read_gesture(gesture), board.session.plan, board.session.report)
            plan = self._after(board.session.plan, edit)
            if plan not in self._numbers:
                if not is_new or len(self.made.states) >= MOST_STATES or self.made.size > MOST_PACKED:
                    return None
                self.add(plan, str(gesture.get("dim", "")))
        except WorkbenchError:
            return {"refusal": self.made.keep(board.refusal_of(gesture))} if is_new else None
        target = self._numbers[plan]
        shown = {"said": str(edit), "deltas": self._boards[target].deltas_since(board)}
        return {"to": target, "shown": self.made.keep_part(shown)}

    def _after(self, plan: Plan, edit: Edit) -> Plan:
        """Apply an edit; each combination of tracing options, which takes long, is traced once."""
        if not isinstance(edit, SetRemat | SetPrecision | SetOffload):
            return apply_edit(plan, edit)
        options = {name: getattr(plan.program, name) for name in ("remat", "precision", "offload")}
        key = tuple({**options, **{option.name: getattr(edit, option.name) for option in fields(edit)}}.values())
        if key not in self._traced:
            self._traced[key] = apply_edit(plan, edit).program
        return plan.updated(program=self._traced[key])

    def draw(self) -> None:
        """Add the pictures, state by state."""
        for board, state in zip(self._boards, self.made.states, strict=True):
            for tab, table in state["tables"].items():
                if self.made.size > MOST_WITH_PICTURES:
                    return
                blocks = board.open(tab)["blocks"]
                if any(block.get("picture") for block in blocks):
                    table["blocks"] = self.made.keep([_without_charts(block) for block in blocks])

    def answer_whys(self) -> None:
        """Add the answers to `Why?`, state by state."""
        for board, state in zip(self._boards, self.made.states, strict=True):
            if self.made.size > MOST_WITH_WHYS:
                return
            state["whys"] = {question: self.made.keep(answer) for question in ASKED if (answer := board.ask(question)) is not None}

    def _verdict(self, report: Report) -> dict[str, Any] | None:
        if self._asked is None:
            return None
        is_about = self._asked.is_about(report.plan)
        return verdict_state(self._asked.judge(report) if is_about else self._asked.check(report.plan), 1)


class _Board:
    def __init__(self, plan: Plan, exercise: Exercise | None, question: str) -> None:
        self.shown: dict[str, Any] = {}
        self._seq = 0
        self.session = Session(plan)
        host = Host(saves=False, runs=False, searches=False, exchanges=False, exercise=exercise, question=question)
        self._board = Board(self.session, self.shown.__setitem__, host=host)

    def do(self, gesture: Gesture) -> None:
        self._seq += 1
        self._board.answer({**gesture, "view": "recorded", "seq": self._seq})

    @property
    def board(self) -> dict[str, Any]:
        return self.shown["board"]

    @property
    def missed(self) -> int:
        return sum(not goal["met"] for goal in (self.board["exercise"] or {}).get("goals", ()))

    def refusal_of(self, gesture: Gesture) -> dict[str, Any] | None:
        self.do(gesture)
        refusal: dict[str, Any] | None = self.board["refusal"]
        return refusal

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        return figures(self.session.report)

    def deltas_since(self, before: "_Board") -> list[dict[str, Any]]:
        states = figure_states(self.figures, before.figures)
        return [{name: state[name] for name in ("delta", "changes")} for state in states]

    def open(self, tab: str) -> dict[str, Any]:
        self.do({"verb": "open", "tab": tab})
        return self._board.whole_table()

    def ask(self, of: str) -> dict[str, Any] | None:
        self.do({"verb": "why", "of": of})
        answer: dict[str, Any] | None = self._board.whole_table()["why"]
        self.do({"verb": "why", "of": ""})
        return answer

    def recipes(self) -> dict[str, Any] | None:
        self.do({"verb": "recipes", "open": True})
        listed: dict[str, Any] | None = self._board.whole_table()["recipes"]
        self.do({"verb": "recipes", "open": False})
        return listed

    def stages(self) -> dict[str, Any] | None:
        if self.session.plan.pipeline is None:
            return None
        return next((block["stages"] for block in self.open("pipeline")["blocks"] if block.get("stages")), None)


def _without_pictures(table: Mapping[str, Any]) -> dict[str, Any]:
    blocks = (
        {**block, "picture": None, "note": f"{block['picture']['about']} {NOT_DRAWN}"} if block.get("picture") else block
        for block in table["blocks"]
    )
    return {**table, "blocks": list(blocks)}


def _without_charts(block: Mapping[str, Any]) -> dict[str, Any]:
    picture = block.get("picture")
    return {**block, "picture": {**picture, "charts": []}} if picture else dict(block)


# A recording as HTML: an element for a separate page or a documentation site, with one script for all elements.

MOST_BYTES = 300 << 10
"""Limit of a recording in bytes as sent, so that a page loads within a second."""


MOVES_VARIABLE = "WORKBENCH_RECORD_MOVES"
"""Environment variable that records the boards of a notebook to this depth in drops; set by a documentation build."""


def recorded_moves() -> int:
    """Return the recording depth of a notebook's boards in drops; 0 if a kernel answers them."""
    depth = os.environ.get(MOVES_VARIABLE, "")
    return int(depth) if depth.isdecimal() and len(depth) < 2 else 0


def pack(recording: BoardRecording) -> str:
    """Pack a recording as base64 of gzipped JSON; equal recordings give equal text."""
    text = json.dumps(recording.record(), separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def recorded_element(recording: BoardRecording, ways: Iterable[str] = ()) -> str:
    """Return the element that `recorded_script` fills; `ways` are suggested for gestures that were not recorded."""
    suggestions = escape("|".join(ways), quote=True)
    note = "<noscript>This board needs JavaScript.</noscript>"
    return f'<div class="recorded-board" data-ways="{suggestions}">{note}<script type="text/plain">{pack(recording)}</script></div>'


def recorded_page(recording: BoardRecording, title: str, ways: Iterable[str] = ()) -> str:
    """Return a self-contained page, which opens from a file and fetches nothing."""
    script = recorded_script().replace("</script", "<\\/script")
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>body{{margin:12px}}</style>\n<body>{recorded_element(recording, ways)}\n"
        f"<script>{script}</script></body></html>\n"
    )
