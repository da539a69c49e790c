"""Write down every state of a board that a few drops reach, with its tabs and answers, so that a page needs no Python to show them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.exercises import Exercise, PlanQuestion
from workbench.plan.plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.board import Board
from workbench.widgets.board.board_host import Host
from workbench.widgets.exercise.exercise_panel import verdict_state
from workbench.widgets.gestures.dimensions import PrioritizeGesture

TABS = ("tensors", "communication")
ASKED = ("figure memory", "figure sent", "figure flops", "figure duplication", "figure predicted")
"""What `Why?` is answered in a recording."""
MOST_STATES = 2_000
Gesture = Mapping[str, Any]


@dataclass
class BoardRecording:
    """States of a board: `states[0]` is the beginning. A state has its `board`, its `tables` by tab, the answers to `whys`, where each drop
    and each round leads (`drops`, by `drop_key`), and, of a question that asks for a plan, what Check says. Parts are numbers of `pool`,
    where each list and table stands once; one within another is `{"$": its number}` there."""

    states: list[dict[str, Any]] = field(default_factory=list)
    pool: list[Any] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict, repr=False)

    def keep(self, value: Any) -> int:
        """The number of a value in the pool."""
        kept = self._keep_inner(value)
        text = json.dumps(kept, ensure_ascii=False)
        if text not in self._known:
            self._known[text] = len(self.pool)
            self.pool.append(kept)
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
        return {key: self.keep(value) for key, value in part.items() if key not in ("answer", "told", "seq", "revision")}

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {"states": self.states, "pool": self.pool}


def drop_key(gesture: Gesture) -> str:
    """What a drop is known by: `K||x`, the dimension, the zone it comes from, the zone it is dropped on; a round is `round 1|K`."""
    if gesture["verb"] == PrioritizeGesture.verb:
        return f"round {gesture['priority']}|{gesture['dim']}"
    return f"{gesture['dim']}|{gesture['source']}|{gesture['target']}"


def record_board(
    plan: Plan, moves: int = 2, exercise: Exercise | None = None, question: str = "", tabs: Sequence[str] = TABS
) -> BoardRecording:
    """Every state within so many moves of a plan, at most `MOST_STATES`; of an exercise the question that is named, else the first. A move
    is a drop, or the round of a dimension that shares its axis.

    Raises `WorkbenchError` for a question that there is not.
    """
    made = BoardRecording()
    waiting: list[tuple[Gesture, ...]] = [()]
    numbers: dict[tuple[Gesture, ...], int] = {}
    for path in waiting:  # grows while it is walked
        board = _Board(plan, exercise, question)
        for gesture in path:
            board.do(gesture)
        numbers[path_of(path)] = number = len(made.states)
        made.states.append(_state(board, made, tabs))
        if path:
            made.states[numbers[path_of(path[:-1])]]["drops"][drop_key(path[-1])] = number
        if len(path) < moves and not board.refused:
            moves_on = [*_drops(board.board), *_rounds(board.board)]
            waiting += [(*path, move) for move in moves_on][: max(MOST_STATES - len(waiting), 0)]
    return made


def path_of(path: Sequence[Gesture]) -> Any:
    """A path as a key."""
    return tuple(drop_key(each) for each in path)


class _Board:
    """A board of its own, driven by gestures."""

    def __init__(self, plan: Plan, exercise: Exercise | None, question: str) -> None:
        self.shown: dict[str, Any] = {}
        self._seq = 0
        self._exercise, self._question = exercise, question
        self.session = Session(plan)
        self._board = Board(self.session, self.shown.__setitem__, host=Host(exercise=exercise, question=question))

    def do(self, gesture: Gesture) -> None:
        self._seq += 1
        self._board.answer({**gesture, "view": "recorded", "seq": self._seq})

    @property
    def board(self) -> dict[str, Any]:
        return self.shown["board"]

    @property
    def refused(self) -> bool:
        return self.board["refusal"] is not None

    def table(self) -> dict[str, Any]:
        return self._board.whole_table()

    def verdict(self) -> dict[str, Any] | None:
        """What Check says to the plan as it is, at the first try; `None` where no plan is asked for."""
        if self._exercise is None:
            return None
        asked = self._exercise[self._question] if self._question else self._exercise.questions[0]
        return verdict_state(asked.check(self.session.plan), 1) if isinstance(asked, PlanQuestion) else None


def _state(board: _Board, made: BoardRecording, tabs: Sequence[str]) -> dict[str, Any]:
    """The state of a board, its parts in the pool."""
    state: dict[str, Any] = {"board": made.keep_part(board.board), "live": made.keep_part(board.shown["live"]), "drops": {}}
    state["refused"] = board.refused
    if board.refused:
        return state
    state["verdict"] = made.keep(board.verdict())
    state["tables"] = {}
    for tab in tabs:
        board.do({"verb": "open", "tab": tab})
        state["tables"][tab] = made.keep_part(board.table())
    state["whys"] = {of: made.keep(answer) for of in ASKED if (answer := _ask(board, of)) is not None}
    return state


def _ask(board: _Board, of: str) -> dict[str, Any] | None:
    board.do({"verb": "why", "of": of})
    answer: dict[str, Any] | None = board.table()["why"]
    board.do({"verb": "why", "of": ""})
    return answer


def _drops(board: Mapping[str, Any]) -> Iterator[Gesture]:
    """Each chip of each zone, dropped on each other zone."""
    zones = board["zones"]
    for zone in zones:
        for chip in zone["chips"]:
            for target in zones:
                if target["axis"] != zone["axis"]:
                    yield {"verb": "drop", "dim": chip["dim"], "source": zone["axis"], "target": target["axis"], "add": False}


def _rounds(board: Mapping[str, Any]) -> Iterator[Gesture]:
    """Of dimensions that share an axis, each put in the first or the second round, which decides what the axis splits."""
    for zone in board["zones"]:
        if zone["axis"] and len(zone["chips"]) > 1:
            for chip in zone["chips"]:
                for option in (each for entry in chip["menu"] for each in entry.get("options", ()) if not each["checked"]):
                    if option["gesture"]["verb"] == PrioritizeGesture.verb and option["gesture"]["priority"] < 2:
                        yield option["gesture"]
