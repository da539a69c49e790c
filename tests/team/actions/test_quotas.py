"""What one person may have: each quota counts, refuses with the arithmetic, and is free again by its way out."""

import pytest

from tests.support.team_server import add_person
from tests.support.team_world import document
from workbench.team.access import ConflictError
from workbench.team.actions.all_actions import ALL_ACTIONS
from workbench.team.actions.quotas import ALL_QUOTAS, MIB, quota_records, verify_quotas
from workbench.team.actions.server_settings import ALL_SETTINGS
from workbench.team.store.store import now
from workbench.team.store.tables import Base, LogEntry, Project, RegisteredProgram, StoredPlan, StoredRoom

NAMES = [each.name for each in ALL_QUOTAS]


def quota_of(world, name, person="ada"):
    """What a person has of a quota, and may have."""
    found = {each["name"]: each for each in world.do("me.quota", person)["items"]}
    assert list(found) == NAMES
    return found[name]["used"], found[name]["limit"]


def set_limit(world, name, limit):
    """Have everybody have at most so much."""
    quota = next(each for each in ALL_QUOTAS if each.name == name)
    value = next(each["value"] for each in world.do("settings.list", "root")["items"] if each["key"] == quota.setting)
    world.do("settings.set", "root", {"value": {**value, quota.key: limit}}, setting=quota.setting)


ADDS = {
    "projects": lambda world: world.do("projects.create", "ada", {"slug": "third", "name": "x"}),
    "programs": lambda world: world.do(
        "programs.add",
        "ada",
        {"name": "more", "target": "more:build", "kind": "git", "locator": "https://git.example/x.git 1a2b3c"},
        project="vision",
    ),
    "plans": lambda world: world.do("plans.push", "ada", {"document": document("hidden:data")}, project="vision"),
    "rooms": lambda world: world.do("rooms.open", "ada", {"plan": world.things["vision"]["entry"]}, project="vision"),
    "jobs": lambda world: world.do("jobs.submit", "ada", {"plan": world.things["vision"]["entry"]}, project="vision"),
    "storage": lambda world: world.do("comments.add", "ada", {"node": 0, "text": "long" * 900}, room=world.things["vision"]["room"]),
}
FREES = {
    "projects": lambda world, added: world.do("projects.update", "ada", {"archived": True}, project=added["slug"]),
    "programs": lambda world, added: world.do("programs.withdraw", "ada", program=added["id"]),
    "plans": lambda world, added: world.do("plans.withdraw", "ada", entry=added["id"]),
    "rooms": lambda world, added: world.do("rooms.update", "ada", {"closed": True}, room=added["id"]),
}


@pytest.mark.parametrize("name", [each for each in NAMES if each != "storage"])
def test_a_quota_counts_refuses_with_the_arithmetic_and_is_raised_by_an_administrator(world, name):
    used, _ = quota_of(world, name)
    set_limit(world, name, used)
    before = world.dump()
    with pytest.raises(ConflictError, match=f"You have {used} of {used}: ") as refused:
        ADDS[name](world)
    assert "ask an administrator for more" in refused.value.ways_out
    assert world.dump() == before
    set_limit(world, name, used + 1)
    added = ADDS[name](world)
    assert quota_of(world, name) == (used + 1, used + 1)
    if name in FREES:
        FREES[name](world, added)
        assert quota_of(world, name) == (used, used + 1)


def test_storage_counts_what_is_kept_of_each_kind(world):
    def added_by(change):
        before = quota_of(world, "storage")[0]
        change()
        return quota_of(world, "storage")[0] - before

    def store(*rows):
        with world.store.write() as session:
            session.add_all(rows)

    room, ada = world.things["vision"]["room"], world.people["ada"]
    assert added_by(lambda: ADDS["storage"](world)) == 3_600
    pushed = []
    grown = added_by(lambda: pushed.append(ADDS["plans"](world)))
    with world.store.read() as session:
        assert grown >= len(session.get_one(StoredPlan, pushed[0]["digest"]).document) > 100
    assert added_by(lambda: ADDS["plans"](world)) == 0, "the same plan is stored once"
    body = {"edit": {"text": "x" * 500}}
    log = LogEntry(room_id=room, seq=2, author_id=ada, kind="edit", body=body, digest=pushed[0]["digest"], created=now())
    assert 500 < added_by(lambda: store(log)) < 600

    def fetch():
        with world.store.write() as session:
            session.get_one(RegisteredProgram, world.things["vision"]["program"]).size = 5 * MIB

    assert added_by(fetch) == 5 * MIB
    assert added_by(lambda: world.do("programs.withdraw", "ada", program=world.things["vision"]["program"])) == -5 * MIB


def test_who_has_stored_too_much_adds_nothing(world):
    with world.store.write() as session:
        session.get_one(RegisteredProgram, world.things["vision"]["program"]).size = 3 * MIB
    set_limit(world, "storage", 3)
    for add in (ADDS["storage"], ADDS["plans"], ADDS["rooms"], ADDS["programs"]):
        with pytest.raises(ConflictError, match=r"You have 3\.0\d MiB of 3\.00 MiB: programs, plans, comments"):
            add(world)
    world.do("comments.add", "ed", {"node": 0, "text": "mine"}, room=world.things["vision"]["room"])


@pytest.mark.compile
def test_both_databases_count(store):
    Base.metadata.create_all(store.engine)
    person = add_person(store, "ada")
    with store.write() as session:
        project = session.query(Project).filter_by(personal_of=person).one()
        session.add(StoredPlan(digest="d", document="x" * 1000, target="mlp", mesh="data:1", devices=1, dims=[], created=now()))
        session.flush()
        own = {"first": "d", "by": person, "created": now(), "touched": now(), "closed": None, "program_id": None}
        session.add(StoredRoom(id="room", project_id=project.id, name="r", **own))
        session.flush()
        session.add(LogEntry(room_id="room", seq=1, author_id=person, kind="edit", body={"a": "x" * 100}, digest="d", created=now()))
    with store.read() as session:
        used = {each.name: each.used for each in quota_records(session, person)}
    assert used | {"storage": 0} == {**dict.fromkeys(NAMES, 0), "rooms": 1}
    assert 100 < used["storage"] < 120


def test_the_table_names_actions_and_settings_that_there_are():
    names = {each.name for each in ALL_ACTIONS} | {"rooms.edit"}  # what people do in rooms is no action
    assert {action for quota in ALL_QUOTAS for action in quota.actions} <= names
    keys = {(each.key, key) for each in ALL_SETTINGS for key in each.default}
    assert {(each.setting, each.key) for each in ALL_QUOTAS} <= keys
    assert set(ADDS) == set(NAMES)


def test_an_action_without_a_quota_is_not_counted(world):
    set_limit(world, "storage", 0)
    with world.store.read() as session:
        verify_quotas(session, "plans.update", world.people["ada"])
        with pytest.raises(ConflictError):
            verify_quotas(session, "comments.add", world.people["ada"])
