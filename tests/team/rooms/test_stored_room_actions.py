"""A plan goes from a room into the gallery as its document says it, whatever the room's process claims."""

from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
from sqlalchemy import select

from tests.support.room_sessions import first_plan
from workbench.documents import dump_plan
from workbench.errors import WorkbenchError
from workbench.plan.edits import ShardDim
from workbench.team.access import ConflictError, ForbiddenError, ProjectRole
from workbench.team.planning.grade_answers import describe_plan
from workbench.team.rooms.room_notices import RoomGuest
from workbench.team.rooms.room_records import CHECKED_ENTRIES, append_entry, read_room
from workbench.team.rooms.stored_room_actions import StoredRoomActions
from workbench.team.store.store import digest_of
from workbench.team.store.tables import AuditEntry, GalleryEntry, Setting, StoredFigures, StoredPlan

PLAN = first_plan().apply(ShardDim("hidden", ("model",)))
GOOD = asdict(describe_plan(PLAN, PLAN.report()))


@pytest.fixture
def actions(team):
    return StoredRoomActions(team.store, "https://plans.example.org/team")


@pytest.fixture
def source(team, document):
    return read_room(team.store, team.new_room(document))


def guest(team, name, role=ProjectRole.EDITOR):
    return RoomGuest(1, team.principal(name), role, None)


def rows(team, table):
    with team.store.read() as session:
        return list(session.scalars(select(table)))


def test_a_plan_goes_into_the_gallery_once_for_each_person(team, actions, source):
    for name in ("bob", "bob", "ada"):
        place = actions.save(source, guest(team, name), {"save": GOOD, "name": "two-layer"})
        assert place == "https://plans.example.org/team/p/vision/"
    entries = rows(team, GalleryEntry)
    assert sorted((each.author_id, each.digest, each.room_id, each.name) for each in entries) == sorted(
        (team.people[name], GOOD["digest"], source.room_id, "two-layer") for name in ("ada", "bob")
    )
    assert [each.values["peak_bytes"] for each in rows(team, StoredFigures)] == [PLAN.report().peak]
    assert [each.action for each in rows(team, AuditEntry)].count("plans.save") == 2


def test_a_viewer_puts_nothing_there(team, actions, source):
    with pytest.raises(ForbiddenError, match="To add a plan to the gallery takes an editor of the project, and you are a viewer"):
        actions.save(source, guest(team, "vic", ProjectRole.VIEWER), {"save": GOOD, "name": "x"})
    for name, held in (("vic", "you are a viewer"), ("zoe", "you are not a member")):  # who edits by a link
        with pytest.raises(ForbiddenError, match=f"To add a plan to the gallery takes an editor of the project, and {held}"):
            actions.save(source, guest(team, name), {"save": GOOD, "name": "x"})
    assert rows(team, GalleryEntry) == []


OTHER = dump_plan(first_plan())
FORGED = {
    "a digest of another document": {"digest": digest_of(OTHER)},
    "another document": {"document": OTHER},
    "a target that its document does not have": {"target": "gpt"},
    "a document that is none": {"document": "none", "digest": digest_of("none")},
    "a document of no program": {"document": "[]", "digest": digest_of("[]")},
    "figures that nobody measured": {"figures": {**GOOD["figures"], "measured": GOOD["figures"]["planned"]}},
}


@pytest.mark.parametrize("name", FORGED)
def test_what_a_process_claims_that_its_document_does_not_say_is_refused(team, actions, source, name):
    with pytest.raises(WorkbenchError, match=r"[Tt]he room's process"):
        actions.save(source, guest(team, "bob"), {"save": {**GOOD, **FORGED[name]}, "name": "x"})
    assert rows(team, GalleryEntry) == []
    assert [each.document for each in rows(team, StoredPlan)] == [source.document]


@pytest.mark.parametrize("record", [{}, {**GOOD, "dims": None}, {"document": 1}], ids=["nothing", "no dims", "half"])
def test_what_describes_no_plan_is_refused(team, actions, source, record):
    with pytest.raises(WorkbenchError, match="sent an invalid answer"):
        actions.save(source, guest(team, "bob"), {"save": record, "name": "x"})


def test_a_room_about_one_program_saves_no_plan_of_another(team, actions, source):
    """Not even one that lies about it: the document says which."""
    own = replace(source, program=SimpleNamespace(target="mine:build", name="mine"))
    with pytest.raises(WorkbenchError, match="This room is about `mine:build`, and the plan is of `two_layer`"):
        actions.save(own, guest(team, "bob"), {"save": GOOD, "name": "x"})
    with pytest.raises(WorkbenchError, match="do not match the document"):
        actions.save(own, guest(team, "bob"), {"save": {**GOOD, "target": "mine:build"}, "name": "x"})
    assert rows(team, GalleryEntry) == []


def test_a_branch_is_a_room_of_the_project_with_the_same_log(team, actions, source):
    place = actions.branch(source, guest(team, "bob"))
    assert place.startswith("https://plans.example.org/team/room/")
    branch = read_room(team.store, place.rpartition("/")[2])
    assert (branch.project_id, branch.document, branch.log) == (source.project_id, source.document, source.log)
    assert branch.room_id != source.room_id
    assert branch.name == "Bob's branch of Tuesday"
    for name in ("vic", "zoe"):
        with pytest.raises(ForbiddenError, match="To branch off takes an editor of the project"):
            actions.branch(source, guest(team, name))


def set_accounts(team, **limits):
    """Limits of what one person may have."""
    with team.store.write() as session:
        session.merge(Setting(key="accounts", value=limits))


def test_who_has_as_much_as_one_may_adds_nothing_from_a_room(team, actions, source):
    """What is there already is no more."""
    actions.save(source, guest(team, "bob"), {"save": GOOD, "name": "x"})
    set_accounts(team, plans=0, mebibytes=0)
    actions.save(source, guest(team, "bob"), {"save": GOOD, "name": "x"})
    with pytest.raises(ConflictError, match="You have 0 of 0: plans in galleries"):
        actions.save(source, guest(team, "ada"), {"save": GOOD, "name": "x"})
    set_accounts(team, rooms=0)
    with pytest.raises(ConflictError, match="You have 0 of 0: open rooms"):
        actions.branch(source, guest(team, "bob"))


def test_a_log_ends_where_its_author_has_stored_too_much(team, source):
    set_accounts(team, mebibytes=1)
    entry = {"author": team.people["bob"], "kind": "pin", "body": {"note": "x" * 600_000}}
    for seq in range(1, CHECKED_ENTRIES):
        append_entry(team.store, source.room_id, {**entry, "seq": seq, "body": entry["body"] if seq < 3 else {}}, "d" * 64)
    with pytest.raises(ConflictError, match=r"You have 1\.14 MiB of 1\.00 MiB"):
        append_entry(team.store, source.room_id, {**entry, "seq": CHECKED_ENTRIES, "body": {}}, "d" * 64)
    append_entry(team.store, source.room_id, {**entry, "author": team.people["ada"], "seq": CHECKED_ENTRIES, "body": {}}, "d" * 64)


def test_comments_are_written_below_the_servers_prefix(actions, source):
    assert actions.comments_of(source) == f"/team/api/v1/rooms/{source.room_id}/comments"


def test_a_server_without_a_queue_says_so(team, actions, source):
    with pytest.raises(WorkbenchError, match="This server runs no jobs"):
        actions.run(source, guest(team, "rosa", ProjectRole.RUNNER), {"run": GOOD, "name": "x", "steps": 2, "job": 1}, print)
    with pytest.raises(ForbiddenError, match="To run a plan takes a runner of the project"):
        actions.run(source, guest(team, "bob"), {"run": GOOD, "name": "x", "steps": 2, "job": 1}, print)
