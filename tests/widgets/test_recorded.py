"""A recorded board: what it shows is what the board would, what lies outside is not there, and it is small enough to be sent."""

import base64
import gzip
import json
from pathlib import Path

import pytest

from workbench.exercises import Devices, Exercise, FewStatements, Goal, PlanQuestion
from workbench.models import build
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.board import Board
from workbench.widgets.board.board_host import Host
from workbench.widgets.front_end import recorded_script
from workbench.widgets.recorded.record_board import (
    ASKED,
    MOST_BYTES,
    MOVES_VARIABLE,
    STAGE_TABS,
    TABS,
    pack,
    record_board,
    recorded_element,
    recorded_page,
)

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
    board = Board(Session(PLAN), shown.__setitem__, host=Host(saves=False, runs=False, searches=False, exchanges=False))
    for seq, gesture in enumerate(({"verb": "open", "tab": "tensors"}, *gestures), 1):
        board.answer({**gesture, "view": "v", "seq": seq})
    return {"board": json.loads(json.dumps(shown["board"])), "table": json.loads(json.dumps(board.whole_table()))}


def drop(dim: str, source: str, target: str) -> dict:
    return {"verb": "drop", "dim": dim, "source": source, "target": target, "add": False}


def follow(recording: dict, *keys: str) -> tuple[dict, dict]:
    """The state at the end of these moves, and its board as the page shows it after the last."""
    place, shown = 0, {}
    for key in keys:
        move = recording["states"][place]["moves"][key]
        place, shown = move["to"], part(recording, move["shown"])
    state = recording["states"][place]
    board = part(recording, state["board"])
    deltas = shown.pop("deltas", [{}] * len(board["figures"]))
    figures = [{**figure, **delta} for figure, delta in zip(board["figures"], deltas, strict=True)]
    return state, {**board, **shown, "figures": figures}


OF_THE_PAGE = ("undo", "redo", "history")
"""The page has these of its own, or does not show them."""


def test_every_state_is_what_the_board_shows_after_the_same_drops(recording):
    first, second = drop("io", "", "model"), drop("batch", "data", "")
    state, kept = follow(recording, "drop|io||model", "drop|batch|data|")
    shown = live(first, second)
    compared = [key for key in kept if key not in OF_THE_PAGE]
    assert {key: shown["board"][key] for key in compared} == {key: kept[key] for key in compared}
    assert kept["layout"] == "io:model"
    table = part(recording, state["tables"]["tensors"])
    assert {key: shown["table"][key] for key in table} == table


def test_two_ways_to_a_plan_lead_to_one_state_and_back(recording):
    one, after_one = follow(recording, "drop|io||model", "drop|batch|data|")
    other, after_other = follow(recording, "drop|batch|data|", "drop|io||model")
    assert one is other
    assert after_one["said"] != after_other["said"]
    begin, _ = follow(recording, "drop|io||model", "drop|batch|data|", "drop|io|model|", "drop|batch||data")
    assert begin is recording["states"][0]


def test_it_has_its_tabs_and_answers_and_ends_after_its_drops(recording):
    begin = recording["states"][0]
    assert tuple(begin["tables"]) == TABS
    assert tuple(begin["whys"]) == ASKED
    assert read(recording, recording["pool"][begin["whys"]["figure sent"]])["title"].startswith("Why ")
    assert all("to" in move for state in recording["states"][-5:] for move in state["moves"].values())


def test_a_drop_that_is_refused_is_recorded_with_its_refusal(recording):
    refused = recording["states"][0]["moves"]["drop|hidden||data"]
    assert "30" in read(recording, recording["pool"][refused["refusal"]])["message"]


def verdict(made: dict, *keys: str) -> bool:
    state, _ = follow(made, *keys)
    return read(made, made["pool"][state["verdict"]])["right"]


def test_an_exercise_is_checked_in_every_state():
    made = record_board(ONE.first_plan, 1, ONE, "share").record()
    assert not verdict(made)
    assert verdict(made, "drop|K||x")
    assert not verdict(made, "drop|J||x")


def asked(plan: Plan, goal: Goal, *may_change: str) -> Exercise:
    return Exercise("moves", "Moves", (PlanQuestion(plan, goal, name="ask", may_change=may_change),))


def test_a_question_that_lets_the_mesh_change_has_its_axes_moved_and_resized():
    made = record_board(PLAN, 1, asked(PLAN, Devices(16), "mesh")).record()
    assert set(made["states"][0]["moves"]) == {
        "order_axes|model,data",
        "shift_axis|data|1",
        "shift_axis|model|-1",
        *("resize|data|2", "resize|data|8", "resize|model|1", "resize|model|4"),
    }
    assert follow(made, "order_axes|model,data")[0] is follow(made, "shift_axis|data|1")[0]
    assert follow(made, "resize|data|8")[1]["mesh"] == "data:8 × model:2"


def test_recipes_are_recorded_and_applied_and_rounds_decide_between_two_dimensions():
    plan = PLAN.updated(layout="")
    made = record_board(plan, 3, asked(plan, FewStatements(9), "layout")).record()
    rows = read(made, made["pool"][made["states"][0]["recipes"]])["rows"]
    assert {row["name"] for row in rows} > {"data_parallel", "megatron"}
    key = next(key for key in made["states"][0]["moves"] if key.startswith("recipe|megatron"))
    assert "model" in follow(made, key)[1]["layout"]
    assert follow(made, "drop|batch||model", "drop|hidden||model", "prioritize|hidden|2")[1]["layout"] == "batch:model; hidden:model p2"


def test_a_question_about_a_pipeline_has_its_controls_boundaries_and_pictures():
    program = build("gpt", layers=4, d_model=64, heads=4, d_head=16, d_ff=128, vocab=128, seq=32, batch=8)
    spec = "stages:2 micro_batches:2 schedule:gpipe remat:never"
    plan = Plan(program, "stage:2", hardware="2 H100", pipeline=spec)
    made = record_board(plan, 1, asked(plan, Devices(2), "pipeline")).record()
    begin = made["states"][0]
    assert tuple(begin["tables"]) == STAGE_TABS
    assert {"pipeline|schedule|1f1b", "pipeline|micro_batches|8", "pipeline|remat|always"} <= set(begin["moves"])
    assert not any(key.startswith("drop") for key in begin["moves"])
    blocks = part(made, begin["tables"]["pipeline"])["blocks"]
    assert blocks[1]["picture"]["svg"].startswith("<svg")
    assert blocks[1]["picture"]["charts"] == []
    state, _ = follow(made, "pipeline|boundary|1 layers/3")
    assert part(made, state["tables"]["pipeline"])["blocks"][0]["stages"]["board"]["starts"] == [4]
    there, _ = follow(made, "pipeline|schedule|1f1b", "pipeline|schedule|gpipe")
    assert there is begin


def test_dimensions_that_share_an_axis_can_be_put_in_another_round():
    conflicts = Exercise.load(Path(__file__).parents[2] / "lessons" / "conflicts" / "exercise.json")
    made = record_board(conflicts["whole_step"].plan, 1, conflicts, "whole_step").record()
    moves = made["states"][0]["moves"]
    rights = {}
    for key in ("prioritize|batch|1", "prioritize|hidden|1"):
        rights[key] = read(made, made["pool"][made["states"][moves[key]["to"]]["verdict"]])["right"]
    assert [*rights.values()] == [True, False]
    alone = record_board(ONE.first_plan, 1, ONE, "share").record()
    assert not any(each.startswith("prioritize") for state in alone["states"] for each in state["moves"])


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
