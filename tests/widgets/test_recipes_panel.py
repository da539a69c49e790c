"""The recipes beside the board: what they would do, why they do not apply, the axis that is chosen, and one step of the history."""

import pytest

from workbench.models import build
from workbench.plan.edits import EditGroup
from workbench.public_plan import Plan
from workbench.recipes import ALL_RECIPES
from workbench.session.plan_history import Session
from workbench.widgets.board.board import Board


class Screen:
    def __init__(self, plan: Plan) -> None:
        self.session, self.shown, self.seq = Session(plan), {}, 0
        self.board = Board(self.session, self.shown.__setitem__)

    def do(self, **gesture) -> None:
        self.seq += 1
        self.board.answer({**gesture, "view": "v", "seq": self.seq})

    @property
    def recipes(self) -> dict:
        return {row["name"]: row for row in self.shown["table"]["recipes"]["rows"]}

    @property
    def refusal(self) -> dict | None:
        return self.shown["board"]["refusal"]


@pytest.fixture(scope="module")
def gpt():
    return build("gpt", layers=1)


@pytest.fixture
def screen(gpt) -> Screen:
    screen = Screen(Plan(gpt, "data:4 model:2", "batch:data"))
    screen.do(verb="recipes", open=True)
    return screen


def test_nothing_is_worked_out_before_the_list_is_opened(gpt, monkeypatch):
    asked = []
    monkeypatch.setattr("workbench.widgets.board.recipes_panel.list_recipes", lambda *_: asked.append(1) or ())
    screen = Screen(Plan(gpt, "data:4 model:2", "batch:data"))
    screen.do(verb="drop", dim="heads", source="", target="model")
    assert (asked, screen.shown["table"]["recipes"]) == ([], None)
    screen.do(verb="recipes", open=True)
    assert asked == [1]
    screen.do(verb="recipes", open=False)
    screen.do(verb="undo")
    assert asked == [1]


def test_every_recipe_says_what_it_would_do_or_why_not(screen):
    assert list(screen.recipes) == [each.name for each in ALL_RECIPES]
    for row in screen.recipes.values():
        assert bool(row["edits"]) is (row["state"] == "applies")
        assert row["reason"] or row["state"] == "applies"
    assert screen.recipes["data_parallel"]["state"] == "holds"
    assert screen.recipes["megatron"]["edits"] == ["heads → model", "d_ff → model", "vocab → model"]
    assert [axis["name"] for axis in screen.recipes["two_dimensional"]["axes"]] == ["data", "model"]
    barred = screen.recipes["expert_parallel"]
    assert "no weight of" in barred["reason"]
    assert barred["ways_out"]


def test_a_recipe_is_one_step_of_the_history_and_undo_takes_all_of_it_back(screen):
    before = screen.session.plan
    screen.do(verb="recipe", name="megatron", axes=[])
    assert screen.refusal is None
    assert isinstance(screen.session.edits[-1], EditGroup)
    assert screen.session.plan.layout.rule("d_ff") == ("model",)
    assert screen.recipes["megatron"]["state"] == "holds"
    screen.do(verb="undo")
    assert screen.session.plan == before
    assert screen.recipes["megatron"]["state"] == "applies"


def test_another_axis_can_be_chosen_and_one_that_cannot_be_says_why(screen):
    screen.do(verb="recipe_axis", name="megatron", place=0, axis="data")
    row = screen.recipes["megatron"]
    assert (row["state"], row["given"], row["axes"][0]["name"]) == ("barred", ["data"], "data")
    assert "which already shards `batch`" in row["reason"]
    screen.do(verb="recipe_axis", name="zero_1", place=0, axis="model")
    screen.do(verb="recipe", name="zero_1", axes=screen.recipes["zero_1"]["given"])
    assert "model" in str(screen.session.plan.layout)
    assert "on model" in str(screen.session.edits[-1])


def test_an_axis_chosen_for_one_purpose_changes_places_with_the_other(screen):
    screen.do(verb="recipe_axis", name="two_dimensional", place=0, axis="model")
    assert screen.recipes["two_dimensional"]["given"] == ["model", "data"]


def test_a_choice_of_an_axis_that_is_gone_is_forgotten(screen):
    screen.do(verb="recipe_axis", name="megatron", place=0, axis="model")
    screen.do(verb="rename_axis", axis="model", name="tensor")
    assert screen.recipes["megatron"]["given"] == []
    assert screen.recipes["megatron"]["axes"][0]["name"] == "tensor"


BAD = [
    {"verb": "recipe", "name": "nothing of the kind", "axes": []},
    {"verb": "recipe", "name": "spatial", "axes": []},
    {"verb": "recipe", "name": "megatron", "axes": ["data", "model"]},
    {"verb": "recipe", "name": "megatron", "axes": ["nowhere"]},
    {"verb": "recipe_axis", "name": "megatron", "place": 7, "axis": "model"},
    {"verb": "recipe_axis", "name": "megatron", "place": 0, "axis": "nowhere"},
    {"verb": "recipe_axis", "name": None, "place": "0", "axis": 3},
]


@pytest.mark.parametrize("gesture", BAD, ids=str)
def test_what_cannot_be_is_refused_under_the_head_and_changes_nothing(screen, gesture):
    before = screen.session.plan
    screen.do(**gesture)
    assert screen.refusal["zone"] == "tools"
    assert "itself failed" not in screen.refusal["message"]
    assert screen.session.plan == before


def test_a_list_that_fails_says_so_and_leaves_the_tables(screen, monkeypatch):
    monkeypatch.setattr("workbench.widgets.board.recipes_panel.list_recipes", lambda *_: 1 / 0)
    screen.do(verb="open", tab="notes")
    assert "ZeroDivisionError" in screen.shown["table"]["recipes"]["problem"]
    assert screen.shown["table"]["tab"] == "notes"
