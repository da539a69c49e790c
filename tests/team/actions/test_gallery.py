"""Plans pushed, searched, forked, withdrawn and compared."""

import pytest

from tests.support.team_world import document
from workbench.team.access import ConflictError, ForbiddenError, InputError, MissingError
from workbench.team.actions.comparison import _front
from workbench.team.actions.schemas import make_cursor
from workbench.team.store.store import now
from workbench.team.store.tables import GalleryEntry, StoredFigures, StoredPlan


def names(page):
    return [each["name"] for each in page["items"]]


def push(world, name, layout="batch:data", mesh="data:4", hardware=None, person="ada", **body):
    return world.do("plans.push", person, {"document": document(layout, mesh, hardware), "name": name, **body}, project="vision")


def test_a_document_is_stored_once_and_pushed_again_makes_no_second_entry(world):
    first = push(world, "one", note="a")
    again = push(world, "two", note="b")
    assert first["id"] == again["id"]
    assert (again["name"], again["note"]) == ("two", "b")
    other = push(world, "of Ed", person="ed")
    assert other["id"] != first["id"]
    assert other["digest"] == first["digest"]
    with world.store.read() as session:
        assert session.query(StoredPlan).filter_by(digest=first["digest"]).count() == 1


def test_what_is_stored_is_the_canonical_text(world):
    loose = document().replace("\n", " ").replace('"rules"', '  "rules"')
    assert loose != document()
    entry = world.do("plans.push", "ada", {"document": loose}, project="vision")
    assert world.do("plans.document", "vic", entry=entry["id"])["document"] == document()


SEARCHES = [
    ({"q": "TWO_layer first"}, ["first"]),
    ({"q": "%"}, []),
    ({"q": "_irst"}, []),
    ({"model": "two_layer"}, ["third", "second", "first"]),
    ({"model": "gpt"}, []),
    ({"mesh": "data:8"}, ["second"]),
    ({"hardware": "v5e"}, ["third"]),
    ({"dimension": "hidden"}, ["third", "second", "first"]),
    ({"dimension": "hid"}, []),
    ({"dimension": 'hidden", "io'}, []),
    ({"author": "ed"}, ["second"]),
    ({"author": "nobody"}, []),
    ({"tier": "planned"}, ["third", "second", "first"]),
    ({"tier": "compiled"}, []),
    ({"tier": "measured"}, ["first"]),
    ({"fits": "true"}, ["third"]),
    ({"fits": "false"}, ["first"]),
    ({"limit": "2"}, ["third", "second"]),
]


@pytest.mark.compile
@pytest.mark.parametrize(("query", "found"), SEARCHES, ids=lambda each: str(each)[:30])
def test_the_gallery_is_searched(world, query, found):
    with world.store.write() as session:
        for each in session.query(GalleryEntry):
            each.withdrawn = now()
    first = push(world, "first", "")
    push(world, "second", mesh="data:8", person="ed")
    push(world, "third", hardware="TPU v5e 2x2")
    with world.store.write() as session:
        own = {"digest": first["digest"], "tier": "measured", "version": "1", "job_id": None, "created": now(), "thumbnail": ""}
        session.add(StoredFigures(**own, values={"fits": False, "step_seconds": 0.5}))
    assert names(world.do("plans.list", "vic", query=query, project="vision")) == found
    assert names(world.do("plans.mine", "vic", query=query)) == found


def test_a_list_comes_in_parts_that_nothing_moves(world):
    for number in range(5):
        push(world, f"plan {number}", mesh=f"data:{2**number}")
    whole = names(world.do("plans.list", "vic", project="vision"))
    seen, query = [], {"limit": "2"}
    while True:
        part = world.do("plans.list", "vic", query=query, project="vision")
        seen += names(part)
        if part["next"] is None:
            break
        if len(seen) == 2:
            push(world, "late", "hidden:data", "data:2")
        query = {"limit": "2", "cursor": part["next"]}
    assert seen == whole


@pytest.mark.parametrize(
    "cursor", ["x", "bm9uZQ", make_cursor(1.0, 5), make_cursor(1e300, "a"), make_cursor(float("nan"), "a"), make_cursor(1.0, "a b")]
)
def test_a_cursor_that_is_none_is_refused(world, cursor):
    with pytest.raises(InputError, match="Invalid cursor"):
        world.do("plans.list", "vic", query={"cursor": cursor}, project="vision")


def test_an_entry_is_changed_by_its_author_and_by_owners(world):
    entry = push(world, "of Ed", person="ed")["id"]
    assert world.do("plans.update", "ed", {"note": "mine"}, entry=entry)["note"] == "mine"
    assert world.do("plans.update", "ada", {"note": "ours"}, entry=entry)["note"] == "ours"
    with pytest.raises(ForbiddenError, match="added by another person"):
        world.do("plans.update", "rosa", {"note": "no"}, entry=entry)
    assert world.do("plans.withdraw", "ed", entry=entry)["withdrawn"] is not None
    assert entry not in [each["id"] for each in world.do("plans.list", "vic", project="vision")["items"]]
    assert entry in [each["id"] for each in world.do("plans.list", "vic", query={"withdrawn": "true"}, project="vision")["items"]]


def test_a_fork_says_what_it_began_as_to_those_who_may_see_that(world):
    origin = world.things["vision"]["entry"]
    fork = world.do("plans.fork", "vic", {"project": "vic", "name": "mine"}, entry=origin)
    assert fork["forked_from"] == {"id": origin, "name": "two-layer", "project": "vision"}
    assert world.do("plans.get", "ada", entry=origin)["forks"] == 1
    assert world.do("plans.document", "vic", entry=fork["id"])["digest"] == world.things["vision"]["digest"]
    world.do("members.set", "vic", {"role": "viewer"}, project="vic", person="sam")
    assert world.do("plans.get", "sam", entry=fork["id"])["forked_from"] is None


def test_a_push_names_an_origin_that_is_the_persons_to_see(world):
    with pytest.raises(MissingError):
        push(world, "x", forked_from=world.things["other"]["entry"])
    assert push(world, "x", "", "data:8", forked_from=world.things["vision"]["entry"])["forked_from"]["project"] == "vision"


def test_an_archived_project_is_read_and_not_changed(world):
    world.do("projects.update", "ada", {"archived": True}, project="vision")
    assert world.do("plans.list", "vic", project="vision")["items"]
    with pytest.raises(ConflictError, match="is archived"):
        push(world, "late")
    with pytest.raises(ConflictError, match="is archived"):
        world.do("plans.fork", "ed", {"project": "vision"}, entry=world.things["vision"]["entry"])
    world.do("projects.update", "ada", {"archived": False}, project="vision")
    push(world, "in time")


def test_the_price_of_steps_is_the_teams_own(world):
    [entry] = world.do("plans.list", "vic", query={"hardware": "v5e"}, project="vision")["items"]
    planned = entry["figures"]["planned"]
    assert planned["dollars"] == pytest.approx(0.9 * 8 / 3600 * planned["step_seconds"] * 1000)
    world.do("hardware.remove", "ada", project="vision", hardware="pod")
    [entry] = world.do("plans.list", "vic", query={"hardware": "v5e"}, project="vision")["items"]
    assert entry["figures"]["planned"]["dollars"] != planned["dollars"]


def test_a_document_is_read_by_its_digest_where_the_person_may_read_it(world):
    theirs = world.things["other"]["digest"]
    with pytest.raises(MissingError):
        world.do("plans.by_digest", "vic", digest=theirs)
    link = world.do("shares.of_room", "sam", {}, room=world.things["other"]["room"])
    world.do("shares.open", "vic", {"secret": link["address"].rpartition("/")[2]})
    assert world.do("plans.by_digest", "vic", digest=theirs)["digest"] == theirs
    assert world.do("plans.by_digest", "root", digest=theirs)["digest"] == theirs
    world.do("shares.revoke", "sam", share=link["id"])
    with pytest.raises(MissingError):
        world.do("plans.by_digest", "vic", digest=theirs)


def test_plans_side_by_side(world):
    a = push(world, "A", "batch:data", "data:4", "TPU v5e 2x2")
    b = push(world, "B", "batch:data; hidden:data", "data:4", "TPU v5e 2x2", person="ed")
    c = push(world, "C", "hidden:model", "data:2 model:2", "TPU v5e 2x2")
    found = world.do("plans.compare", "vic", query={"plans": ",".join([a["id"], b["digest"], c["id"]])}, project="vision")
    assert [(each["name"], each["author"]["name"]) for each in found["plans"]] == [("A", "ada"), ("B", "ed"), ("C", "ada")]
    assert found["differences"] == [{"name": "mesh", "values": ["data:4", "data:4", "data:2 model:2"]}]
    assert {"name": "hardware", "value": "TPU v5e 2x2"} in found["alike"]
    statements = {each["subject"]: (each["values"], each["differs"]) for each in found["statements"]}
    assert statements == {"batch": (["data", "data", None], True), "hidden": ([None, "data", "model"], True)}
    peaks = next(each for each in found["figures"] if each["name"] == "peak_bytes")
    assert peaks["values"] == [each["figures"]["planned"]["peak_bytes"] for each in (a, b, c)]
    assert len(found["front"]) == 3
    assert any(each["is_best"] for each in found["front"])
    assert found["measured"] == []


def test_the_front_compares_every_plan_in_one_tier():
    """A plan that is only predicted must not beat those that were compiled or measured: its prediction is compared with theirs."""
    planned = [
        {"step_seconds": 2.0, "peak_bytes": 9.0},
        {"step_seconds": 1.0, "peak_bytes": 10.0},
        {"step_seconds": 3.0, "peak_bytes": 12.0},
    ]
    surer = [{"compiled": {"step_seconds": 20.0, "peak_bytes": 99.0}}, {"measured": {"step_seconds": 30.0}}, {}]
    figures = [{"planned": figure, **more} for figure, more in zip(planned, surer, strict=True)]
    front = _front("abc", figures)
    assert [(point.step_seconds, point.peak_bytes, point.is_best) for point in front] == [
        (2.0, 9.0, True),
        (1.0, 10.0, True),
        (3.0, 12.0, False),
    ]
    assert all(point.tiers == ["planned", "planned"] for point in front)
    [whole, other] = _front("ab", [{**figures[0]}, {**figures[1], "compiled": {"step_seconds": 10.0, "peak_bytes": 50.0}}])
    assert (whole.tiers, other.step_seconds, other.is_best, whole.is_best) == (["compiled", "compiled"], 10.0, True, False)


@pytest.mark.parametrize("plans", ["", "{entry}", "{entry}," * 11, "{entry},{foreign}", "{entry},../x"])
def test_a_comparison_of_other_plans_or_too_few_is_refused(world, plans):
    text = plans.format(entry=world.things["vision"]["entry"], foreign=world.things["other"]["entry"])
    with pytest.raises((InputError, MissingError)):
        world.do("plans.compare", "vic", query={"plans": text}, project="vision")
