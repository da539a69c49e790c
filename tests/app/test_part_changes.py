"""What is sent of a part is what changed, and makes the new state of the old one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.app.page.part_changes import SentParts, find_changes, with_change
from workbench.models import build
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.board import Board

scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2)
values = st.recursive(
    scalars, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from("abc"), each, max_size=3), max_leaves=9
)


@given(before=values, after=values)
def test_a_change_makes_the_new_value_of_the_old_one(before, after):
    change = find_changes(before, after)
    found = before if change is None else with_change(before, json.loads(json.dumps(change)))
    assert json.dumps(found, sort_keys=True) == json.dumps(after, sort_keys=True)
    assert find_changes(after, after) is None


class Window:
    """What a page has after each message, and how many characters came."""

    def __init__(self):
        self.sent, self.parts, self.characters, self.begins = SentParts(), {}, 0, True

    def publish(self, part, state):
        messages = {part: self.sent.begin(part, state)} if self.begins else self.sent.next(part, state)
        for name, text in messages.items():
            self.take(part, name, text)
        assert {**self.parts[part], "edition": 0} == {**json.loads(json.dumps(state)), "edition": 0}

    def take(self, part, name, text):
        self.characters += len(text)
        content = json.loads(text)
        if name == "changes":
            assert content["of"] == self.parts[part]["edition"]
            content = with_change(self.parts[part], content["by"])
        self.parts[part] = content


@pytest.mark.parametrize(("tab", "share"), [("tensors", 1 / 3), ("overview", 0.6)])  # of the Overview most changes
def test_the_first_drop_sends_what_it_changed_and_a_page_that_asks_gets_all(tab, share):
    window = Window()
    board = Board(Session(Plan(build("gpt"), "data:4 model:2", "batch:data; d_ff:model; heads:model")), window.publish)
    board.answer({"verb": "open", "tab": tab, "view": "a", "seq": 0})
    first, window.characters, window.begins = window.characters, 0, False
    board.answer({"verb": "drop", "dim": "vocab", "source": "", "target": "model", "view": "a", "seq": 1})
    assert first > 25_000
    assert window.characters < first * share
    window.characters = 0
    board.answer({"verb": "refresh", "view": "a", "seq": 2})
    assert window.characters > 25_000


def test_what_has_not_changed_is_not_sent_again():
    sent, state = SentParts(), {"told": 0, "log": ["a"]}
    sent.begin("live", state)
    assert sent.next("live", dict(state)) == {}
    ((name, text),) = sent.next("live", {**state, "log": ["a", "b"] * 20}).items()
    assert (name, json.loads(text)["edition"]) == ("live", 2)


def test_a_column_of_which_most_is_another_is_sent_whole():
    before = {"x": [0, 1, 2, 3], "of": [[1], [2]]}
    assert find_changes(before, {**before, "x": [0, 1, 9, 3]}) == {"x": {"2": [9]}}
    assert find_changes(before, {**before, "x": [9, 8, 7, 3]}) == {"x": [[9, 8, 7, 3]]}
    assert find_changes({"x": [1]}, {"x": [True]}) == {"x": [[True]]}
