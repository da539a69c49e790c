"""A recorded board: what it shows is what the board would, what lies outside is not there, and it is small enough to be sent."""

import base64
import gzip
import json
from pathlib import Path

import pytest

from workbench.exercises import Exercise
from workbench.models import build
from workbench.plan.plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.board import Board
from workbench.widgets.front_end import recorded_script
from workbench.widgets.recorded.record_board import ASKED, TABS, record_board
from workbench.widgets.recorded.recorded_page import MOST_BYTES, MOVES_VARIABLE, pack, recorded_element, recorded_page

pytestmark = pytest.mark.compile

ONE = Exercise.load(Path(__file__).parents[2] / "lessons" / "one_product" / "exercise.json")
PLAN = Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", "batch:data", hardware="TPU v5e 2x4")


@pytest.fixture(scope="module")
def recording() -> dict:
    """As a page has it."""
    return json.loads(gzip.decompress(base64.b64decode(pack(record_board(PLAN, 2)))))


def read(recording: dict, value):
    """A value with what it refers to in the pool, as `recorded.js` reads it."""
    if isinstance(value, dict):
        if set(value) == {"$"}:
            return read(recording, recording["pool"][value["$"]])
        return {key: read(recording, each) for key, each in value.items()}
    return [read(recording, each) for each in value] if isinstance(value, list) else value


def part(recording: dict, kept: dict) -> dict:
    return {key: read(recording, recording["pool"][number]) for key, number in kept.items()}


def live(*gestures: dict) -> dict:
    """What a board shows after these."""
    shown: dict = {}
    board = Board(Session(PLAN), shown.__setitem__)
    for seq, gesture in enumerate(gestures, 1):
        board.answer({**gesture, "view": "v", "seq": seq})
    return {"board": json.loads(json.dumps(shown["board"])), "table": json.loads(json.dumps(board.whole_table()))}


def drop(dim: str, source: str, target: str) -> dict:
    return {"verb": "drop", "dim": dim, "source": source, "target": target, "add": False}


def test_every_state_is_what_the_board_shows_after_the_same_drops(recording):
    first, second = drop("io", "", "model"), drop("batch", "data", "")
    place = recording["states"][0]["drops"]["io||model"]
    place = recording["states"][place]["drops"]["batch|data|"]
    state, shown = recording["states"][place], live(first, second)
    kept = part(recording, state["board"])
    assert {key: shown["board"][key] for key in kept} == kept
    assert kept["layout"] == "io:model"
    table = part(recording, state["tables"]["tensors"])
    assert {key: shown["table"][key] for key in table} == table


def test_it_has_its_tabs_and_answers_and_ends_after_its_drops(recording):
    begin = recording["states"][0]
    assert tuple(begin["tables"]) == TABS
    assert tuple(begin["whys"]) == ASKED
    assert read(recording, recording["pool"][begin["whys"]["figure sent"]])["title"].startswith("Why ")
    last = [state for state in recording["states"] if not state["drops"]]
    assert len(last) > len(recording["states"]) / 2


def test_a_drop_that_is_refused_is_recorded_with_its_refusal(recording):
    place = recording["states"][0]["drops"]["hidden||data"]
    state = recording["states"][place]
    assert state["refused"]
    assert "30" in read(recording, recording["pool"][state["board"]["refusal"]])["message"]


def test_an_exercise_is_checked_in_every_state():
    made = record_board(ONE.first_plan, 1, ONE, "share").record()
    for layout, right in ((None, False), ("K||x", True), ("J||x", False)):
        state = made["states"][made["states"][0]["drops"][layout] if layout else 0]
        assert read(made, made["pool"][state["verdict"]])["right"] is right


def test_dimensions_that_share_an_axis_can_be_put_in_another_round():
    conflicts = Exercise.load(Path(__file__).parents[2] / "lessons" / "conflicts" / "exercise.json")
    made = record_board(conflicts["whole_step"].plan, 1, conflicts, "whole_step").record()
    drops = made["states"][0]["drops"]
    assert {each for each in drops if each.startswith("round")} == {"round 1|batch", "round 1|hidden"}
    rights = [read(made, made["pool"][made["states"][drops[each]]["verdict"]])["right"] for each in ("round 1|batch", "round 1|hidden")]
    assert rights == [True, False]
    alone = record_board(ONE.first_plan, 1, ONE, "share").record()
    assert not any(each.startswith("round") for state in alone["states"] for each in state["drops"])


def test_the_same_plan_gives_the_same_text_and_it_is_small():
    once, twice = (pack(record_board(PLAN, 1)) for _ in range(2))
    assert once == twice
    assert len(gzip.compress(recorded_script().encode())) + len(pack(record_board(PLAN, 2))) < MOST_BYTES


def test_a_page_fetches_nothing_and_its_script_ends_where_it_should():
    page = recorded_page(record_board(PLAN, 1), "A <plan>", ["run it: <here>"])
    assert "<title>A &lt;plan&gt;</title>" in page
    assert 'data-ways="run it: &lt;here&gt;"' in page
    assert page.count("</script>") == 2
    assert "import " not in page.partition("<script>")[2][:400]


def test_a_cell_is_recorded_in_the_build_of_a_site_alone(monkeypatch):
    from workbench import Workbench

    cell = Workbench(PLAN)
    monkeypatch.setenv(MOVES_VARIABLE, "1")
    data, _ = cell._repr_mimebundle_()
    assert data["text/html"] == recorded_element(record_board(PLAN, 1), ["run this cell in a notebook"])
    for off in ("", "no", "-1", "100"):
        monkeypatch.setenv(MOVES_VARIABLE, off)
        assert "recorded-board" not in cell._repr_mimebundle_()[0]["text/html"]
