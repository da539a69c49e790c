"""Gestures over the wire: what is written is read back, what the page sends is known, and each has a handler."""

import re
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench.widgets
from workbench.errors import WorkbenchError
from workbench.widgets.board.board import Board
from workbench.widgets.board.gesture_edits import EDITS
from workbench.widgets.gestures.gesture_codec import (
    ALL_GESTURES,
    BOARD_GESTURES,
    EDIT_GESTURES,
    FLEET_GESTURES,
    kind_of,
    read_gesture,
    requested_hardware,
    verify_gesture,
    zone_of,
)
from workbench.widgets.gestures.tensor_gestures import DropGesture

STATIC = Path(workbench.widgets.__file__).parent / "static"
TEXT = st.text(max_size=12)
NUMBER = st.integers(0, 3)
BY_TYPE = {
    str: TEXT,
    str | None: st.none() | TEXT,
    bool: st.booleans(),
    int: NUMBER,
    int | None: st.none() | NUMBER,
    tuple[str, ...]: st.lists(TEXT, max_size=4),
}
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | TEXT, lambda inner: st.lists(inner, max_size=3), max_leaves=5)


def messages(kind, values_of=BY_TYPE.__getitem__):
    """As the page would send it, or with other values in the fields."""
    hints = get_type_hints(kind, include_extras=True)
    values = {each.name: values_of(get_args(hints[each.name])[0]) for each in fields(kind)}
    fixed = {"verb": st.just(kind.verb), **({kind.apart_by: st.just(kind.apart)} if kind.apart_by else {})}
    return st.fixed_dictionaries({**values, **fixed})


@given(message=st.sampled_from(BOARD_GESTURES).flatmap(messages))
@settings(max_examples=300)
def test_a_gesture_of_the_board_that_is_written_is_read_back(message):
    gesture = read_gesture(message)
    assert type(gesture) is kind_of(message)
    assert read_gesture(gesture.as_message()) == gesture


@given(message=st.sampled_from(FLEET_GESTURES).flatmap(messages))
def test_a_gesture_of_the_fleet_that_is_written_is_read_back(message):
    gesture = read_gesture(message, FLEET_GESTURES)
    assert read_gesture(gesture.as_message(), FLEET_GESTURES) == gesture


@given(message=st.sampled_from(BOARD_GESTURES).flatmap(lambda kind: messages(kind, lambda _type: JSON)))
@settings(max_examples=300)
def test_whatever_stands_in_the_fields_is_read_or_refused_in_words(message):
    assert isinstance(zone_of(message), str)
    requested_hardware(message)
    with suppress(WorkbenchError):
        gesture = read_gesture(message)
        assert read_gesture(gesture.as_message()) == gesture


@pytest.mark.parametrize("members", [BOARD_GESTURES, FLEET_GESTURES], ids=["board", "fleet"])
def test_each_message_is_about_one_member(members):
    named = [(each.verb, each.apart) for each in members]
    assert len(set(named)) == len(named)
    assert all(each.verb and bool(each.apart) == bool(each.apart_by) for each in members)
    assert all(kind_of({"verb": each.verb, each.apart_by: each.apart}, members) is each for each in members)


def test_the_edits_are_the_gestures_that_ask_for_another_plan():
    assert set(EDITS) == set(EDIT_GESTURES)


def test_a_board_answers_every_gesture(session):
    assert set(Board(session, lambda _part, _state: None)._handlers) == set(BOARD_GESTURES)


def test_every_verb_of_the_page_is_in_the_table():
    source = "\n".join(file.read_text(encoding="utf-8") for file in sorted(STATIC.glob("*.js")))
    literal = re.findall(r'\bverb: "([a-z_]+)"', source)
    either = [verb for pair in re.findall(r'\bverb: [\w.]+ \? "(\w+)" : "(\w+)"', source) for verb in pair]
    called = re.findall(r'\b(?:act|tool|field)\(\s*"([a-z_]+)"', source)  # they send their first argument
    sent = {*literal, *either, *called}
    assert {"drop", "redo", "leave", "pin", "memory"} <= sent
    assert sent - {each.verb for each in ALL_GESTURES} == set()


def test_a_message_says_what_it_is_and_leaves_out_what_says_nothing():
    assert DropGesture("batch", "", "data").as_message() == {"verb": "drop", "dim": "batch", "source": "", "target": "data", "add": False}
    assert DropGesture("batch", "", "data", zone="tables").as_message()["zone"] == "tables"


def test_a_verb_is_read_without_its_other_fields():
    with pytest.raises(WorkbenchError, match="not an annotation"):
        read_gesture({"verb": "annotate", "what": "dance"})
    with pytest.raises(WorkbenchError, match="There is no change of a pipeline `dance`"):
        read_gesture({"verb": "pipeline", "change": "dance"})


@pytest.mark.parametrize("kind", ALL_GESTURES, ids=lambda kind: kind.verb)
def test_a_gesture_with_all_its_fields_and_what_a_page_adds_is_not_too_much(kind):
    added = ("verb", "view", "seq", "saw", "ahead")
    verify_gesture(dict.fromkeys((*(each.name for each in fields(kind)), *added), ""))
