"""Write down the states of a board that a few moves reach, with its tabs and answers, so that a page needs no Python to show them."""

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
"""Of a question that lets nothing change but the pipeline."""
ASKED = ("figure memory", "figure sent", "figure flops", "figure duplication", "figure predicted")
"""What `Why?` is answered in a recording."""
MOST_STATES = 48
MOST_PACKED, MOST_WITH_PICTURES, MOST_WITH_WHYS = 88 << 10, 128 << 10, 136 << 10
"""Of a recording, in bytes as it is gzipped: no state is begun beyond, then no picture, then no answer to `Why?`."""
NOT_DRAWN = "This recording does not include the picture."
_OWN = ("answer", "told", "seq", "revision")
"""Entries that the page has of its own."""


@dataclass
class BoardRecording:
    """States of a board: `states[0]` is the beginning. A state has its `board`, its `tables` by tab, its `recipes`, the answers to `whys`,
    where each move leads (`moves`, by `move_key`), and, of a question that asks for a plan, what Check says. A move has the number of the
    state that it leads `to`, and what is `shown` there after it; or the `refusal`. Parts are numbers of `pool`, where
    each list and table stands once; one within another is `{"$": its number}` there."""

    states: list[dict[str, Any]] = field(default_factory=list)
    pool: list[Any] = field(default_factory=list)
    size: int = 0
    """Bytes of the pool, gzipped."""
    _known: dict[str, int] = field(default_factory=dict, repr=False)
    _packer: Any = field(default_factory=lambda: zlib.compressobj(9), repr=False)

    def keep(self, value: Any) -> int:
        """The number of a value in the pool."""
        kept = self._keep_inner(value)
        text = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
        if text not in self._known:
            self._known[text] = len(self.pool)
            self.pool.append(kept)
            self.size += len(self._packer.compress(text.encode()))
        return self._known[text]

    def _keep_inner(self, value: Any) -> Any:
        """The value with each list and table in it as its number in the pool: states differ in few of them."""
        if isinstance(value, Mapping):
            return {str(key): self._keep_reference(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._keep_reference(each) for each in value]
        return value

    def _keep_reference(self, value: Any) -> Any:
        return {"$": self.keep(value)} if isinstance(value, Mapping | list | tuple) and value else value

    def keep_part(self, part: Mapping[str, Any]) -> dict[str, int]:
        """A part of the board with each of its entries in the pool: most are those of the state before."""
        return {key: self.keep(value) for key, value in part.items() if key not in _OWN}

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {"states": self.states, "pool": self.pool, "fields": MOVE_FIELDS}


def record_board(
    plan: Plan, moves: int = 2, exercise: Exercise | None = None, question: str = "", tabs: Sequence[str] = ()
) -> BoardRecording:
    """The states within so many moves of a plan, until the recording is `MOST_PACKED` or has `MOST_STATES`: those that meet the most
    goals are gone on from first, after the rounds of two dimensions that were dropped on one axis. Then the pictures of the tabs, state by
    state, until `MOST_WITH_PICTURES`, and the answers to `Why?`, until `MOST_WITH_WHYS`. Of an exercise the question that is named, else
    the first.

    The moves are drops; with a question, those that its answer may be changed by. Two ways to one plan lead to one state.

    Raises `WorkbenchError` for a question that there is not.
    """
    recorder = _Recorder(exercise, question, tuple(tabs))
    recorder.add(plan)
    ends = [0]
    for _ in range(moves):
        ends = sorted(ends, key=recorder.promise)
        ends = [made for is_round in (True, False) for each in ends for made in recorder.go_on(each, is_round=is_round)]
    for each in range(len(recorder.made.states)):
        recorder.go_on(each, is_new=False)
    recorder.draw()
    recorder.answer_whys()
    return recorder.made


class _Recorder:
    """The recording as it grows. A state is known by its plan, and has a board."""

    def __init__(self, exercise: Exercise | None, question: str, tabs: tuple[str, ...]) -> None:
        self.made = BoardRecording()
        asked = (exercise[question] if question else exercise.questions[0]) if exercise else None
        self._exercise, self._question = exercise, question
        self._asked = asked if isinstance(asked, PlanQuestion) else None
        self._what: tuple[str, ...] = self._asked.may_change if self._asked else ("layout",)
        self._tabs = tabs or (STAGE_TABS if self._what == ("pipeline",) else TABS)
        self._boards: list[_Board] = []
        self._offered: list[list[Gesture]] = []
        self._dropped: list[str] = []
        self._numbers: dict[Plan, int] = {}
        self._traced: dict[tuple[Any, ...], Program] = {}

    def promise(self, number: int) -> tuple[int, float]:
        """The order in which states are gone on from: those that miss the fewest goals, then those with the shortest step."""
        board = self._boards[number]
        return board.missed, board.session.report.seconds or 0.0

    def add(self, plan: Plan, dropped: str = "") -> int:
        """The state of a plan, the first of a board; `dropped` is the dimension that was moved last, if any, whose rounds alone are tried.
        Raises `WorkbenchError` for a plan that cannot be."""
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
        """Try each move from a state, or only the rounds; those to plans that are not there yet are added, if it `is_new`, else recipes are
        not tried, which take long. Returns what was added."""
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
        """Where a move leads; `None` if that is not recorded."""
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
        there = self._numbers[plan]
        shown = {"said": str(edit), "deltas": self._boards[there].deltas_since(board)}
        return {"to": there, "shown": self.made.keep_part(shown)}

    def _after(self, plan: Plan, edit: Edit) -> Plan:
        """The plan after an edit. How a program is traced is asked of every state and takes long: each way is traced once."""
        if not isinstance(edit, SetRemat | SetPrecision | SetOffload):
            return apply_edit(plan, edit)
        given = {name: getattr(plan.program, name) for name in ("remat", "precision", "offload")}
        way = tuple({**given, **{each.name: getattr(edit, each.name) for each in fields(edit)}}.values())
        if way not in self._traced:
            self._traced[way] = apply_edit(plan, edit).program
        return plan.updated(program=self._traced[way])

    def draw(self) -> None:
        """The pictures, of the beginning first, then of the others as they were recorded."""
        for board, state in zip(self._boards, self.made.states, strict=True):
            for tab, kept in state["tables"].items():
                if self.made.size > MOST_WITH_PICTURES:
                    return
                blocks = board.open(tab)["blocks"]
                if any(each.get("picture") for each in blocks):
                    kept["blocks"] = self.made.keep([_without_charts(each) for each in blocks])

    def answer_whys(self) -> None:
        """The answers to `Why?`, of the beginning first, then of the others as they were recorded."""
        for board, state in zip(self._boards, self.made.states, strict=True):
            if self.made.size > MOST_WITH_WHYS:
                return
            state["whys"] = {of: self.made.keep(answer) for of in ASKED if (answer := board.ask(of)) is not None}

    def _verdict(self, report: Report) -> dict[str, Any] | None:
        """What Check says to a plan at the first try; `None` where no plan is asked for."""
        if self._asked is None:
            return None
        is_about = self._asked.is_about(report.plan)
        return verdict_state(self._asked.judge(report) if is_about else self._asked.check(report.plan), 1)


class _Board:
    """A board of its own, driven by gestures."""

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
        """How many goals are not met."""
        return sum(not each["met"] for each in (self.board["exercise"] or {}).get("goals", ()))

    def refusal_of(self, gesture: Gesture) -> dict[str, Any] | None:
        """Why it refuses a gesture, which leaves it as it is."""
        self.do(gesture)
        refusal: dict[str, Any] | None = self.board["refusal"]
        return refusal

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        return figures(self.session.report)

    def deltas_since(self, before: "_Board") -> list[dict[str, Any]]:
        """How each of its key figures has changed since another board."""
        states = figure_states(self.figures, before.figures)
        return [{name: each[name] for name in ("delta", "changes")} for each in states]

    def open(self, tab: str) -> dict[str, Any]:
        """The tables of a tab."""
        self.do({"verb": "open", "tab": tab})
        return self._board.whole_table()

    def ask(self, of: str) -> dict[str, Any] | None:
        """The answer to a question."""
        self.do({"verb": "why", "of": of})
        answer: dict[str, Any] | None = self._board.whole_table()["why"]
        self.do({"verb": "why", "of": ""})
        return answer

    def recipes(self) -> dict[str, Any] | None:
        """The list of recipes."""
        self.do({"verb": "recipes", "open": True})
        listed: dict[str, Any] | None = self._board.whole_table()["recipes"]
        self.do({"verb": "recipes", "open": False})
        return listed

    def stages(self) -> dict[str, Any] | None:
        """The board of the stages, where the plan has a pipeline."""
        if self.session.plan.pipeline is None:
            return None
        return next((each["stages"] for each in self.open("pipeline")["blocks"] if each.get("stages")), None)


def _without_pictures(table: Mapping[str, Any]) -> dict[str, Any]:
    """Tables with what each picture is about in its place."""
    blocks = (
        {**each, "picture": None, "note": f"{each['picture']['about']} {NOT_DRAWN}"} if each.get("picture") else each
        for each in table["blocks"]
    )
    return {**table, "blocks": list(blocks)}


def _without_charts(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block as a page without BokehJS shows it."""
    picture = block.get("picture")
    return {**block, "picture": {**picture, "charts": []}} if picture else dict(block)


# A recording as HTML: an element for a page of its own or of a documentation site, with one script for all of them.

MOST_BYTES = 300 << 10
"""Of one recording as it is sent: a page should be there within a second."""


MOVES_VARIABLE = "WORKBENCH_RECORD_MOVES"
"""The environment variable that has the boards of a notebook recorded, so many drops deep: a documentation site's build sets it."""


def recorded_moves() -> int:
    """How many drops deep the boards of a notebook are recorded; 0 where a kernel answers them."""
    found = os.environ.get(MOVES_VARIABLE, "")
    return int(found) if found.isdecimal() and len(found) < 2 else 0


def pack(recording: BoardRecording) -> str:
    """The recording as text: JSON, gzipped, in base64. The same recording gives the same text."""
    text = json.dumps(recording.record(), separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def recorded_element(recording: BoardRecording, ways: Iterable[str] = ()) -> str:
    """The element that `recorded_script` fills; `ways` are said where something is asked that was not recorded."""
    said = escape("|".join(ways), quote=True)
    note = "<noscript>This board needs JavaScript.</noscript>"
    return f'<div class="recorded-board" data-ways="{said}">{note}<script type="text/plain">{pack(recording)}</script></div>'


def recorded_page(recording: BoardRecording, title: str, ways: Iterable[str] = ()) -> str:
    """A page of its own, which opens from a file and fetches nothing."""
    script = recorded_script().replace("</script", "<\\/script")
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>body{{margin:12px}}</style>\n<body>{recorded_element(recording, ways)}\n"
        f"<script>{script}</script></body></html>\n"
    )
