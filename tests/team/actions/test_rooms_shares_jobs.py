"""Rooms, comments, links, programs, jobs and hardware."""

import base64
from dataclasses import replace

import pytest
from sqlalchemy import select

from tests.support.team_world import DIGEST, document, program_row, secret_of
from workbench.team.access import ConflictError, ForbiddenError, InputError, MissingError, NotSignedInError, ProjectRole, UnavailableError
from workbench.team.accounts.user_accounts import make_personal_project
from workbench.team.actions.held_roles import role_in_room
from workbench.team.store.store import now
from workbench.team.store.tables import Project, RegisteredProgram, Share, StoredRoom, User


def held(world, name):
    with world.store.read() as session:
        room = session.get_one(StoredRoom, world.things["vision"]["room"])
        return role_in_room(session, session.get_one(User, world.people[name]), room)


def test_a_link_gives_its_role_in_its_room_alone_and_as_long_as_it_holds(world):
    things = world.things["vision"]
    assert held(world, "sam") is None
    opened = world.do("shares.open", "sam", {"secret": things["room_secret"]})
    assert (opened["kind"], opened["room"]["role"]) == ("room", "editor")
    assert held(world, "sam") is ProjectRole.EDITOR
    assert world.do("rooms.get", "sam", room=things["room"])["role"] == "editor"
    assert world.do("comments.add", "sam", {"node": 1, "text": "so"}, room=things["room"])["author"]["name"] == "sam"
    for action, path in (
        ("projects.get", {"project": "vision"}),
        ("plans.get", {"entry": things["entry"]}),
        ("rooms.update", {"room": things["room"]}),
    ):
        with pytest.raises(MissingError):
            world.do(action, "sam", {} if action == "rooms.update" else None, **path)
    world.do("shares.revoke", "ada", share=things["share"])
    assert world.services.rooms.asked_again[-1] == things["room"]
    assert held(world, "sam") is None
    with pytest.raises(MissingError):
        world.do("shares.open", "sam", {"secret": things["room_secret"]})


def test_a_link_never_lowers_a_role_and_ends_on_its_day(world):
    things = world.things["vision"]
    viewer = world.do("shares.of_room", "ada", {"role": "viewer"}, room=things["room"])
    world.do("shares.open", "ed", {"secret": secret_of(viewer["address"])})
    assert held(world, "ed") is ProjectRole.EDITOR
    world.do("shares.open", "vic", {"secret": things["room_secret"]})
    assert held(world, "vic") is ProjectRole.EDITOR
    with world.store.write() as session:
        session.get_one(Share, things["share"]).expires = now() - 1
    assert held(world, "vic") is ProjectRole.VIEWER


def test_anybody_reads_a_plan_by_its_link_and_nobody_a_room(world):
    things = world.things["vision"]
    opened = world.do("shares.open", None, {"secret": things["plan_secret"]})
    assert (opened["kind"], opened["document"]) == ("plan", document())
    with pytest.raises(NotSignedInError):
        world.do("shares.open", None, {"secret": things["room_secret"]})
    world.do("plans.withdraw", "ada", entry=things["entry"])
    with pytest.raises(MissingError):
        world.do("shares.open", None, {"secret": things["plan_secret"]})
    with pytest.raises(ConflictError, match="was withdrawn"):
        world.do("shares.of_entry", "ada", {}, entry=things["entry"])


def test_a_link_lasts_no_longer_than_the_server_allows(world):
    world.do("settings.set", "root", {"value": {"days": 5}}, setting="links")
    with pytest.raises(InputError, match="A link may last at most 5 days; you asked for 6"):
        world.do("shares.of_room", "ada", {"days": 6}, room=world.things["vision"]["room"])
    assert world.do("shares.of_room", "ada", {}, room=world.things["vision"]["room"])["expires"] < now() + 6 * 86_400


def test_a_room_is_opened_named_closed_and_read(world):
    things = world.things["vision"]
    room = world.do("rooms.open", "ed", {"plan": things["digest"]}, project="vision")
    assert (room["name"], room["edits"], room["present"]) == ("two-layer", 0, things["digest"])
    assert room["page"].endswith(f"/room/{room['id']}")
    with pytest.raises(ForbiddenError, match="opened by another person"):
        world.do("rooms.update", "rosa", {"closed": True}, room=room["id"])
    assert world.do("rooms.update", "rosa", {"name": "Ours"}, room=room["id"])["name"] == "Ours"
    assert world.do("rooms.update", "ed", {"closed": True}, room=room["id"])["closed"] is not None
    with pytest.raises(ConflictError, match="is closed"):
        world.do("shares.of_room", "ed", {}, room=room["id"])
    assert room["id"] not in [each["id"] for each in world.do("rooms.list", "vic", project="vision")["items"]]
    assert room["id"] in [each["id"] for each in world.do("rooms.list", "vic", query={"closed": "true"}, project="vision")["items"]]
    log = world.do("rooms.log", "vic", room=things["room"])
    assert [(each["seq"], each["kind"], each["author"]["name"]) for each in log["items"]] == [(1, "edit", "ada")]
    assert world.do("rooms.log", "vic", query={"after": "1"}, room=things["room"]) == {"items": [], "after": 1, "more": False}


def test_rooms_are_as_many_as_the_server_allows(world):
    world.do("settings.set", "root", {"value": {"per_project": 1}}, setting="rooms")
    with pytest.raises(ConflictError, match="1 rooms of this project are open"):
        world.do("rooms.open", "ed", {"plan": world.things["vision"]["entry"]}, project="vision")
    with pytest.raises(MissingError):
        world.do("rooms.open", "ed", {"plan": world.things["other"]["second"]}, project="vision")


def test_comments_are_taken_away_by_who_wrote_them(world):
    room = world.things["vision"]["room"]
    mine = world.do("comments.add", "ed", {"node": 2, "text": "odd"}, room=room)["id"]
    with pytest.raises(ForbiddenError):
        world.do("comments.remove", "rosa", comment=mine)
    world.do("comments.remove", "ed", comment=mine)
    with pytest.raises(MissingError):
        world.do("comments.remove", "ada", comment=mine)
    assert [each["text"] for each in world.do("comments.list", "vic", room=room)["items"]] == ["why?"]


def test_a_program_is_named_once_it_is_approved(world):
    text = document().replace('"two_layer"', '"mine:build"')
    with pytest.raises(InputError, match="it runs only after it is approved"):
        world.do("plans.push", "ed", {"document": text}, project="vision")
    with pytest.raises(InputError, match="`theirs:build` is not a program of this project"):
        world.do("plans.push", "ed", {"document": text.replace("mine", "theirs")}, project="vision")
    seen = []
    world.services.planner.__class__.describe_document, kept = _describing(seen), world.services.planner.__class__.describe_document
    try:
        world.do("programs.approve", "ada", {"digest": DIGEST}, program=world.things["vision"]["program"])
        world.do("plans.push", "ed", {"document": text}, project="vision")
    finally:
        world.services.planner.__class__.describe_document = kept
    assert [each.target for each in seen] == ["mine:build"]


@pytest.mark.parametrize(
    ("policy", "project", "person", "may"),
    [
        ("shared", "vision", "ada", True),
        ("shared", "other", "sam", False),  # nobody but Sam is in it: it is as good as a personal project
        ("shared", "sam", "sam", False),
        ("shared", "sam", "root", True),
        ("all", "sam", "sam", True),
        ("none", "vision", "ada", False),
        ("none", "vision", "root", True),
    ],
)
def test_nobody_alone_lets_a_program_run(world, policy, project, person, may):
    world.services = replace(world.services, owners_approve=policy)
    with world.store.write() as session:
        sam = session.get_one(User, world.people["sam"])
        slug = make_personal_project(session, sam).slug if project == "sam" else project
        found = session.scalars(select(Project).where(Project.slug == slug)).one()
        program = program_row(found.id, sam.id, "new", "new:build")
        session.add(program)
    assert world.do("programs.list", person, project=slug)["owners_approve"] is (may and person != "root")
    assert program.id in [each["id"] for each in world.do("programs.waiting", "root")["items"]]
    if may:
        assert world.do("programs.approve", person, {"digest": DIGEST}, program=program.id)["state"] == "approved"
        return
    with pytest.raises(ForbiddenError, match="An administrator has to approve the program `new`"):
        world.do("programs.approve", person, {"digest": DIGEST}, program=program.id)
    assert world.do("programs.get", person, program=program.id)["state"] == "fetched"


def _describing(seen):
    from tests.support.team_world import described

    async def describe_document(self, text, program):
        seen.append(program)
        return described(document())

    return describe_document


def test_a_wheel_is_sent_in_base64(world):
    added = {"name": "wheel", "target": "w:build", "kind": "wheel", "locator": "w-1-py3-none-any.whl"}
    with pytest.raises(InputError, match="Send a wheel as `wheel`"):
        world.do("programs.add", "ada", added, project="vision")
    with pytest.raises(InputError, match="is not base64"):
        world.do("programs.add", "ada", {**added, "wheel": "@@"}, project="vision")
    made = world.do("programs.add", "ada", {**added, "wheel": base64.b64encode(b"PK").decode()}, project="vision")
    assert world.do("programs.withdraw", "ada", program=made["id"])["state"] == "withdrawn"
    with world.store.read() as session:
        assert session.query(RegisteredProgram).count() == 3


@pytest.mark.parametrize("target", ["os", "os:", ":x", "a:b;c", "a b:c", "a:b\n", "../x:y", "a:b()"])
def test_a_target_is_a_module_and_a_function(world, target):
    body = {"name": "x", "target": target, "kind": "git", "locator": "https://git.example/x 1a2b"}
    with pytest.raises(InputError):
        world.do("programs.add", "ada", body, project="vision")


def test_jobs_are_limited_listed_and_cancelled(world):
    things = world.things["vision"]
    world.do("settings.set", "root", {"value": {"per_person": 1, "minutes": 10}}, setting="jobs")
    with pytest.raises(InputError, match="A job may take at most 10 minutes here; you asked for 11"):
        world.do("jobs.submit", "rosa", {"plan": things["entry"], "minutes": 11}, project="vision")
    with pytest.raises(MissingError):
        world.do("jobs.submit", "rosa", {"plan": world.things["other"]["entry"]}, project="vision")
    job = world.do("jobs.submit", "rosa", {"plan": things["entry"], "steps": 5}, project="vision")
    assert (job["state"], job["author"]["name"], job["spec"]) == ("queued", "rosa", {"steps": 5})
    with pytest.raises(ConflictError, match="You have 1 of 1: active jobs"):
        world.do("jobs.submit", "rosa", {"plan": things["entry"]}, project="vision")
    assert [each["id"] for each in world.do("jobs.list", "vic", query={"author": "rosa"}, project="vision")["items"]] == [job["id"]]
    assert world.do("plans.get", "vic", entry=things["entry"])["tried"][0]["person"]["name"] == "rosa"
    assert world.do("jobs.cancel", "ada", job=job["id"])["cancel_asked"] is not None


def test_events_of_a_job_are_read_from_a_number_on(world):
    job = world.things["vision"]["job"]
    world.services.jobs.reported[job] = [{"seq": seq, "time": 1.0, "kind": "progress"} for seq in range(1, 6)]
    part = world.do("jobs.events", "vic", query={"after": "1", "limit": "2"}, job=job)
    assert ([each["seq"] for each in part["items"]], part["after"], part["ended"]) == ([2, 3], 3, False)
    assert world.do("jobs.events", "vic", query={"after": "5"}, job=job)["after"] == 5


def test_hardware_is_what_the_catalogue_knows(world):
    listed = world.do("hardware.list", "vic", project="vision")["items"]
    assert [(each["name"], each["chip"], each["devices"]) for each in listed] == [("pod", "TPU v5e", 16)]
    with pytest.raises(InputError, match="no hardware `Abacus`"):
        world.do("hardware.set", "ada", {"hardware": "8 Abacus"}, project="vision", hardware="old")
    with pytest.raises(MissingError):
        world.do("hardware.remove", "ada", project="vision", hardware="old")


def test_a_server_without_a_part_says_so(world):
    from dataclasses import replace

    world.services = replace(world.services, planner=None, jobs=None, programs=None)
    with pytest.raises(UnavailableError, match="This server reads no plan documents"):
        world.do("plans.push", "ada", {"document": document()}, project="vision")
    with pytest.raises(UnavailableError, match="This server runs no jobs"):
        world.do("jobs.submit", "ada", {"plan": world.things["vision"]["entry"]}, project="vision")
