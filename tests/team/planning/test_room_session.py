"""One session that several people edit: each takes back what is their own, and nothing happens that was not kept."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.support.room_sessions import ADA, BOB, STORIES, VIC, Room, state_of, tell, with_role
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.plan.edits import SetHardware, ShardDim
from workbench.plan.mesh_edits import AddAxis
from workbench.team.access import ProjectRole
from workbench.team.planning import room_session


@pytest.fixture
def room():
    return Room.begin()


def refusal(room, person, verb, *arguments, saw=None):
    """The text of a refusal, which changes nothing."""
    before = state_of(room.session), len(room.log.entries)
    with pytest.raises(WorkbenchError) as caught:
        room.do(person, verb, *arguments, saw=saw)
    assert (state_of(room.session), len(room.log.entries)) == before
    return str(caught.value)


def test_each_takes_back_their_own_edit_and_what_others_did_later_stays(room):
    room.shard(ADA, "hidden", "model")
    room.shard(BOB, "batch")
    room.do(ADA, "undo")
    assert room.layout == ""
    assert [(each.parent, str(each.edit)) for each in room.session.nodes[1:]] == [
        (0, "hidden → model"),
        (1, "batch → whole"),
        (0, "batch → whole"),
    ], "his edit is made again on a branch, and nothing is lost"
    assert list(room.session.authors) == ["", "u-ada", "u-bob", "u-bob"]
    room.do(BOB, "undo")
    assert room.layout == "batch:data"
    assert room.session.node.number == 0
    room.do(ADA, "redo")
    assert room.layout == "batch:data; hidden:model"
    assert room.session.node.number == 1, "no second node where the first is at hand"


def test_an_edit_is_made_again_on_what_the_others_made_meanwhile(room):
    room.shard(ADA, "hidden", "model")
    room.do(ADA, "undo")
    room.shard(BOB, "batch")
    room.do(ADA, "redo")
    assert room.layout == "hidden:model"
    assert (room.session.node.parent, room.session.authors[-1]) == (2, "u-ada")


def test_who_did_nothing_has_nothing_to_take_back(room):
    room.shard(ADA, "hidden", "model")
    before = state_of(room.session)
    for verb in ("undo", "redo"):
        room.do(BOB, verb)
    assert state_of(room.session) == before
    assert len(room.log.entries) == 1


def test_what_can_be_undone_and_redone_is_said_to_each_of_their_own(room):
    session = room.session
    room.shard(ADA, "hidden", "model")
    room.shard(BOB, "batch")
    for person, undoable in ((ADA, "hidden → model"), (BOB, "batch → whole")):
        with session.acting(person):
            assert (session.can_undo, session.can_redo, str(session.undoable)) == (True, False, undoable)
    room.do(BOB, "undo")
    with session.acting(BOB):
        assert (session.can_undo, str(session.undone), session.undoable) == (False, "batch → whole", None)
    with session.acting(ADA):
        assert (session.can_undo, session.can_redo, session.undone) == (True, False, None)


def test_a_new_edit_clears_what_its_author_could_redo_and_nobody_elses(room):
    room.shard(ADA, "hidden", "model")
    room.shard(BOB, "batch")
    for person in (ADA, BOB):
        room.do(person, "undo")
    room.shard(ADA, "io", "model")
    for person, can_redo in ((ADA, False), (BOB, True)):
        with room.session.acting(person):
            assert room.session.can_redo == can_redo


def test_what_cannot_be_taken_back_alone_says_why(room):
    room.do(ADA, "apply", AddAxis("pipe", 2))
    room.shard(BOB, "hidden", "pipe")
    assert refusal(room, ADA, "undo") == (
        "`+ pipe:2` cannot be undone alone: later edits depend on it. There is no mesh axis `pipe`; "
        "there are `data`, `model`.\n  Try: undo later edits first · go to an earlier plan in the history."
    )
    room.do(BOB, "undo")
    room.do(ADA, "undo")
    assert str(room.session.plan.mesh) == "data:4 model:2"


def test_what_cannot_be_made_again_says_why(room):
    room.shard(ADA, "hidden", "model")
    room.do(ADA, "undo")
    room.shard(BOB, "io", "model")
    assert "`w`" in refusal(room, ADA, "redo")
    room.do(BOB, "undo")
    room.do(ADA, "redo")
    assert room.layout == "batch:data; hidden:model"


def test_an_illegal_edit_is_refused_in_the_planners_words(room):
    assert "There is no dimension `hiden`" in refusal(room, ADA, "apply", ShardDim("hiden", ("model",)))


def test_a_refusal_says_what_the_person_had_not_seen(room):
    saw = room.session.revision
    room.shard(BOB, "hidden", "model")
    text = refusal(room, ADA, "apply", ShardDim("io", ("model",)), saw=saw)
    assert "Bob made the edit `hidden → model` 0 s ago, before you saw it." in text
    assert text.endswith("."), "with the ways out"
    seen = refusal(room, ADA, "apply", ShardDim("io", ("model",)), saw=room.session.revision)
    assert "Bob" not in seen
    own = refusal(room, BOB, "apply", ShardDim("io", ("model",)), saw=saw)
    assert "Bob" not in own, "what one did oneself one knows"
    assert "Bob" not in refusal(room, ADA, "apply", ShardDim("io", ("model",))), "it is not known what was seen"


def test_unseen_edits_are_those_of_others_since_then(room):
    room.shard(BOB, "hidden", "model")
    saw = room.session.revision
    room.shard(BOB, "hidden")
    room.shard(ADA, "batch")
    with room.session.acting(ADA, saw):
        assert [str(each.edit) for each in room.session.unseen_edits()] == ["hidden → whole"]
    with room.session.acting(ADA):
        assert room.session.unseen_edits() == []


def test_of_the_edits_a_late_hand_is_compared_with_only_the_last_are_kept(room, monkeypatch):
    monkeypatch.setattr(room_session, "MOST_RECENT", 3)
    for number in range(5):
        room.shard(ADA, "hidden", *(("model",) if number % 2 else ()))
    assert len(room.session.recent) == 3
    assert room.session.recent[-1].revision == room.session.revision


@pytest.mark.parametrize(
    "deed",
    [("apply", ShardDim("hidden", ("model",))), ("undo",), ("redo",), ("go", 0), ("name", 0, "mine"), ("pin", 0)],
    ids=lambda deed: deed[0],
)
def test_who_may_only_look_changes_nothing(room, deed):
    room.shard(ADA, "hidden", "model")
    assert refusal(room, VIC, *deed) == (
        "To edit this plan takes the role editor in this project; yours is viewer.\n"
        "  Try: ask an owner of the project · export the plan and continue in your own workbench."
    )


def test_a_role_that_was_taken_away_holds_for_what_was_done_before(room):
    room.shard(BOB, "hidden", "model")
    refusal(room, with_role(BOB, ProjectRole.VIEWER), "undo")
    room.do(BOB, "undo")
    assert room.layout == "batch:data"


def test_everybody_goes_with_who_goes(room):
    room.shard(ADA, "hidden", "model")
    room.do(BOB, "go", 0)
    assert room.layout == "batch:data"
    assert "There is no plan 7 in the history; it has 0 to 1." in refusal(room, BOB, "go", 7)
    assert "There is no plan -1" in refusal(room, BOB, "go", -1)
    with room.session.acting(ADA):
        assert not room.session.can_undo, "her edit is not in the present plan"


def test_names_and_pins_are_in_the_log_and_cannot_be_of_no_plan(room):
    room.do(ADA, "name", 0, "  the\nfirst ")
    room.do(BOB, "pin", 0)
    assert (room.session.node.name, room.session.node.pinned) == ("the first", True)
    assert [each.kind for each in room.log.records] == ["name", "pin"]
    for deed in (("name", 3, "none"), ("pin", -1)):
        refusal(room, ADA, *deed)


def test_a_listener_acts_as_who_registered_it(room):
    session, heard = room.session, []
    for person in (ADA, BOB):
        with session.acting(person):
            stop = session.listen(lambda _plan, _report: heard.append((session.acting_person, session.can_undo)))
    room.shard(ADA, "hidden", "model")
    assert heard == [(ADA, True), (BOB, False)]
    stop()
    room.shard(BOB, "batch")
    assert [person for person, _ in heard[2:]] == [ADA]


def test_who_acts_is_who_acted_before_once_it_is_over(room):
    session = room.session
    with session.acting(ADA, 3):
        with pytest.raises(WorkbenchError), session.acting(BOB):
            session.go(99)
        assert session.acting_person == ADA
    assert session.acting_person.user_id == ""


def test_an_entry_is_kept_before_anybody_hears_of_it(room):
    order = []
    room.log.on_keep = lambda: order.append(f"kept {len(room.log.entries)}")
    room.session.listen(lambda plan, _report: order.append(str(plan.layout)))
    room.shard(ADA, "hidden", "model")
    room.do(ADA, "undo")
    room.do(ADA, "redo")
    room.do(BOB, "go", 0)
    room.do(BOB, "pin", 1)
    assert order == [
        *("kept 1", "batch:data; hidden:model", "kept 2", "batch:data"),
        *("kept 3", "batch:data; hidden:model", "kept 4", "batch:data", "kept 5", "batch:data"),
    ]
    assert room.log.plans[0].layout == room.session.nodes[1].plan.layout, "with the plan that is present after it"


@pytest.mark.parametrize(
    "deed",
    [("apply", ShardDim("io", ("model",))), ("undo",), ("redo",), ("go", 1), ("name", 0, "mine"), ("pin", 0)],
    ids=lambda deed: deed[0],
)
def test_what_could_not_be_kept_did_not_happen(room, deed):
    heard = []
    room.shard(ADA, "hidden", "model")
    room.do(ADA, "undo")
    room.shard(BOB, "batch")
    room.shard(ADA, "batch", "data") if deed == ("undo",) else None
    room.session.listen(lambda plan, _report: heard.append(plan))
    before = state_of(room.session)
    room.log.problem = OSError("no space left")
    with pytest.raises(OSError, match="no space left"):
        room.do(ADA, *deed)
    assert state_of(room.session) == before
    assert heard == []
    assert room.session.edit_under_way is None
    room.log.problem = None
    room.do(ADA, *deed)
    assert len(heard) == 1


def test_the_figures_of_what_was_not_kept_are_not_those_of_the_next_plan(room):
    room.shard(ADA, "hidden", "model")
    room.shard(BOB, "batch")
    room.shard(BOB, "io", "data")
    room.log.problem = OSError("no space left")
    with pytest.raises(OSError, match="no space left"):
        room.do(ADA, "undo")  # plan 5 would have had `io` on `data` alone
    room.log.problem = None
    room.do(BOB, "undo")
    room.do(BOB, "go", 0)
    room.do(ADA, "name", 0, "first")
    room.shard(ADA, "batch")
    room.do(BOB, "redo")
    session = room.session
    assert [each.number for each in session.nodes] == [0, 1, 2, 3, 4, 5]
    assert session.report.plan == session.plan
    for node in session.nodes:
        assert session.report_of(node.number).plan == node.plan
        assert session.summaries[node.number].peak == node.plan.report().peak


def test_an_edit_that_cannot_be_recorded_is_refused_and_leaves_nothing(room):
    unknown = replace(parse_hardware("TPU v5e 4x2"), name="one of our own")
    assert "cannot be recorded, because it could not be read back" in refusal(room, ADA, "apply", SetHardware(unknown))


@given(STORIES)
@settings(max_examples=25)
def test_whatever_is_done_the_present_plan_is_what_its_edits_make_of_the_first(story):
    room = Room.begin()
    tell(room, story)
    session, plan = room.session, room.first
    for edit in session.edits:
        plan = plan.apply(edit)
    assert session.plan == plan
    assert session.report.plan == plan
    assert len(session.authors) == len(session.nodes)
    assert [each.plan for each in session.nodes] == [session.report_of(each.number).plan for each in session.nodes]


@given(STORIES)
@settings(max_examples=25)
def test_undo_takes_back_ones_own_last_edit_and_only_that(story):
    """The edits of the present plan, with their authors, before and after an undo differ by that edit."""
    room = Room.begin()
    tell(room, story)
    session = room.session
    for person in (ADA, BOB):
        before = edits_with_authors(session)
        try:
            room.do(person, "undo")
        except WorkbenchError:
            assert edits_with_authors(session) == before
            continue
        own = [place for place, (author, _) in enumerate(before) if author == person.user_id]
        assert edits_with_authors(session) == [each for place, each in enumerate(before) if place not in own[-1:]]


def edits_with_authors(session):
    return [(session.authors[number], session.nodes[number].edit) for number in session._history.path() if number]
