"""A room is its log: whatever several people do, replaying what was stored gives the same history."""

import json
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.edit_strategies import EDITS
from tests.support.malformed_records import JSON
from tests.support.room_sessions import ADA, BOB, STORIES, Room, first_plan, state_of, tell
from workbench.errors import DocumentError, WorkbenchError
from workbench.plan.edits import EditGroup, OpenPlan, ShardDim
from workbench.team.planning.room_edit_log import RoomHistory, RoomLogRecord, replay
from workbench.team.planning.room_session import RoomSession


def verify_replays(room):
    """The log, as texts of JSON, gives the nodes, their authors, the head, and what each may redo; and a session that goes on alike."""
    session, replayed = room.session, room.replayed()
    live = session._history
    assert replayed.nodes == live.nodes == session.nodes
    assert replayed.authors == live.authors
    assert replayed.head == live.head == session.node.number
    assert replayed.undone == live.undone
    again = RoomSession.begin(replayed, lambda _record, _plan: None)
    assert (again.plan, again.report.peak) == (session.plan, session.report.peak)
    for person in (ADA, BOB):
        with session.acting(person), again.acting(person):
            assert (again.can_undo, again.can_redo, again.undone, again.undoable) == (
                *(session.can_undo, session.can_redo),
                *(session.undone, session.undoable),
            )


@given(STORIES)
@settings(max_examples=35)
def test_a_log_replays_to_the_same_history(story):
    room = Room.begin()
    tell(room, story)
    verify_replays(room)
    assert all(each.author for each in room.log.records)


@pytest.mark.nightly
@given(st.lists(STORIES, min_size=5, max_size=8).map(lambda stories: [*chain.from_iterable(stories)]))
@settings(max_examples=150)
def test_a_long_log_replays_to_the_same_history(story):
    room = Room.begin()
    tell(room, story)
    verify_replays(room)


# of the plans that these strategies open some have no program that could be analysed
OF_ANY_KIND = st.one_of(*(each for kind, each in EDITS.items() if kind not in (OpenPlan, EditGroup)))


@given(STORIES, OF_ANY_KIND, STORIES)
@settings(max_examples=20)
def test_an_edit_of_any_kind_replays_or_was_refused(before, edit, after):
    room = Room.begin()
    tell(room, [*before, (BOB, ("apply", edit)), *after])
    verify_replays(room)


@given(STORIES, st.integers(0, 20), STORIES)
@settings(max_examples=20)
def test_a_room_that_is_restarted_goes_on_as_if_nothing_had_been(before, cut, after):
    """Two rooms of the same deeds, one of which is ended and replayed in between, are the same room."""
    whole, broken = Room.begin(), Room.begin()
    tell(whole, [*before, *after])
    tell(broken, before)
    restarted = Room(RoomSession.begin(broken.replayed(), broken.log.keep), broken.log, broken.first)
    tell(restarted, after)
    assert restarted.log.entries == whole.log.entries
    mine, theirs = state_of(restarted.session), state_of(whole.session)
    for name in ("nodes", "head", "authors", "undone"):
        assert mine[name] == theirs[name], name
    beginning = replay(whole.first, whole.log.records[:cut])
    assert beginning.nodes == replay(broken.first, restarted.log.records[:cut]).nodes, "and so is every part of the log from its beginning"


def test_a_plan_that_is_opened_is_in_the_log_whole():
    room = Room.begin()
    opened = first_plan().apply(ShardDim("hidden", ("model",)))
    room.do(ADA, "apply", OpenPlan(opened, "hers.plan.json"))
    room.do(BOB, "apply", ShardDim("batch"))
    room.do(ADA, "undo")
    verify_replays(room)


def test_an_entry_says_who_did_what():
    room = Room.begin()
    room.shard(ADA, "hidden", "model")
    room.shard(BOB, "batch")
    room.do(ADA, "undo")
    room.do(ADA, "redo")
    room.do(BOB, "name", 0, "start")
    room.do(BOB, "pin", 0)
    room.do(BOB, "go", 0)
    hidden = {"edit": "shard_dim", "dim": "hidden", "axes": ["model"]}
    whole = {"edit": "shard_dim", "dim": "batch", "axes": []}
    assert [json.loads(each) for each in room.log.entries] == [
        {"kind": "edit", "author": "u-ada", "body": {"added": [{"parent": 0, "edit": hidden, "author": "u-ada"}], "head": 1}},
        {"kind": "edit", "author": "u-bob", "body": {"added": [{"parent": 1, "edit": whole, "author": "u-bob"}], "head": 2}},
        {"kind": "undo", "author": "u-ada", "body": {"undone": 1, "added": [{"parent": 0, "edit": whole, "author": "u-bob"}], "head": 3}},
        {"kind": "redo", "author": "u-ada", "body": {"redone": 1, "added": [{"parent": 3, "edit": hidden, "author": "u-ada"}], "head": 4}},
        {"kind": "name", "author": "u-bob", "body": {"node": 0, "name": "start"}},
        {"kind": "pin", "author": "u-bob", "body": {"node": 0, "pinned": True}},
        {"kind": "go", "author": "u-bob", "body": {"added": [], "head": 0}},
    ]
    words = [room.session.words_of(each) for each in room.log.records]
    assert words == [
        *("hidden → model", "batch → whole", "took back hidden → model", "made hidden → model again"),
        *("named plan 0 start", "pinned plan 0", "went to start"),
    ]


def test_words_of_names_and_pins_that_are_taken_away_say_so():
    room = Room.begin()
    room.shard(ADA, "hidden", "model")
    for deed in (("name", 0, "start"), ("name", 0, " "), ("pin", 0, False), ("go", 0)):
        room.do(ADA, *deed)
    assert [room.session.words_of(each) for each in room.log.records[2:]] == [
        "took the name of plan 0 away",
        "unpinned plan 0",
        "went to plan 0",
    ]


GOOD = RoomLogRecord(
    "edit", "u", {"added": [{"parent": 0, "edit": {"edit": "shard_dim", "dim": "io", "axes": []}, "author": "u"}], "head": 1}
)
SHARDED = {"edit": "shard_dim", "dim": "hidden", "axes": ["model"]}
BROKEN = {
    "an unknown kind": RoomLogRecord("dance", "u", {}),
    "no body": RoomLogRecord("edit", "u", {}),
    "a head that is not there": RoomLogRecord("go", "u", {"added": [], "head": 9}),
    "a head before the first plan": RoomLogRecord("go", "u", {"added": [], "head": -1}),
    "a head that is no number": RoomLogRecord("go", "u", {"added": [], "head": "1"}),
    "a parent that is not there": RoomLogRecord("edit", "u", {"added": [{"parent": 7, "edit": SHARDED, "author": "u"}], "head": 2}),
    "a parent before the first plan": RoomLogRecord("edit", "u", {"added": [{"parent": -1, "edit": SHARDED, "author": "u"}], "head": 2}),
    "an edit that is none": RoomLogRecord("edit", "u", {"added": [{"parent": 0, "edit": {"edit": "burn"}, "author": "u"}], "head": 2}),
    "an illegal edit": RoomLogRecord(
        "edit", "u", {"added": [{"parent": 0, "edit": {**SHARDED, "axes": ["pipe"]}, "author": "u"}], "head": 2}
    ),
    "a name of no plan": RoomLogRecord("name", "u", {"node": 5, "name": "x"}),
    "a pin of a plan before the first": RoomLogRecord("pin", "u", {"node": -1, "pinned": True}),
    "an undo of nothing": RoomLogRecord("undo", "u", {"added": [], "head": 0}),
    "an undo of a plan that is not there": RoomLogRecord("undo", "u", {"added": [], "head": 0, "undone": 4}),
    "an undo of the first plan": RoomLogRecord("undo", "u", {"added": [], "head": 0, "undone": 0}),
    "a name that is no text": RoomLogRecord("name", "u", {"node": 0, "name": ["x"]}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_entry_that_cannot_be_replayed_is_named_and_nothing_else_fails(name):
    with pytest.raises(DocumentError, match=r"^Entry 2 of the room's log cannot be replayed: \S") as caught:
        replay(first_plan(), [GOOD, BROKEN[name]])
    assert caught.value.ways_out


def test_the_text_about_a_damaged_entry_stands_whole():
    with pytest.raises(DocumentError) as caught:
        replay(first_plan(), [GOOD, BROKEN["no body"]])
    assert str(caught.value) == (
        "Entry 2 of the room's log cannot be replayed: It is damaged: KeyError('added').\n  Try: restore a backup of the team's store."
    )


@given(
    st.sampled_from(("edit", "undo", "redo", "go", "name", "pin", "", "KIND")),
    JSON | st.dictionaries(st.sampled_from(("added", "head", "node", "name", "pinned", "undone", "redone")), JSON, max_size=5),
)
@settings(max_examples=60)
def test_whatever_stands_in_a_log_is_replayed_or_refused_in_words(kind, body):
    found, refused = RoomHistory.of(first_plan()), ""
    try:
        found = replay(first_plan(), [GOOD, RoomLogRecord(kind, "u", body)])
    except WorkbenchError as error:
        refused = error.message
    assert 0 <= found.head < len(found.nodes)
    assert not refused or refused.startswith("Entry 2 of the room's log cannot be replayed: ")


def test_a_log_may_name_no_program_but_those_of_the_zoo_and_what_is_allowed():
    document = json.dumps(
        {
            "format": "sharding-workbench.plan",
            "version": 1,
            "name": "theirs",
            "mesh": [["data", 4]],
            "layout": {"rules": {}},
            "program": {"target": "os:system", "arguments": {"command": "true"}},
        }
    )
    opened = RoomLogRecord(
        "edit", "u", {"added": [{"parent": 0, "edit": {"edit": "open_plan", "plan": document, "source": ""}, "author": "u"}], "head": 1}
    )
    with pytest.raises(DocumentError, match="Entry 1 of the room's log cannot be replayed"):
        replay(first_plan(), [opened])


def test_a_room_in_which_nothing_happened_has_one_plan_of_nobody():
    history = RoomHistory.of(first_plan())
    assert (len(history.nodes), history.authors, history.head, history.path()) == (1, ("",), 0, (0,))
    assert history.last_edit_of("") is None, "the first plan is nobody's edit"
    assert replay(first_plan(), []) == history
