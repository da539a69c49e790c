"""A role that an owner changes on the people's page holds in the rooms that are open."""

import pytest

from tests.support.team_server import make_services
from tests.support.team_world import TeamWorld, parts_of_server

pytestmark = [pytest.mark.compile, pytest.mark.worker]


@pytest.fixture
def world(room, hub, tmp_path):
    """The actions of a server with these rooms."""
    team = room.team
    services = make_services(tmp_path, team.store, **{**parts_of_server(team.store), "rooms": hub})
    return TeamWorld(team.store, services, people=team.people)


def test_a_role_that_an_owner_changes_holds_at_once_in_the_rooms_that_are_open(world, room):
    bob = room.enter("bob")
    world.do("members.set", "ada", {"role": "viewer"}, project="vision", person="bob")
    bob.place("hidden", "model")
    assert "yours is viewer" in bob.refusal
    world.do("members.set", "ada", {"role": "editor"}, project="vision", person="bob")
    bob.place("hidden", "model")
    assert bob.layout == "batch:data; hidden:model"


def test_who_is_taken_out_of_a_project_sees_its_rooms_no_more(world, room):
    bob = room.enter("bob")
    world.do("members.remove", "ada", project="vision", person="bob")
    assert bob.failures
    assert bob.board == {}


def test_a_link_gives_its_role_in_the_room_until_it_is_revoked(world, room):
    link = world.do("shares.of_room", "ada", {"role": "editor"}, room=room.room_id)
    opened = world.do("shares.open", "zoe", {"secret": link["address"].rpartition("/")[2]})
    assert opened["room"]["id"] == room.room_id
    zoe = room.enter("zoe")
    zoe.place("hidden", "model")
    assert zoe.layout == "batch:data; hidden:model"
    zoe.ask("branch")
    zoe.until(lambda page: page.notices)
    assert "To branch off takes an editor of the project" in zoe.notices[-1]["text"], "a branch would be a room of the project"
    world.do("shares.revoke", "ada", share=link["id"])
    assert zoe.failures
    assert zoe.board == {}


def test_a_room_that_is_closed_through_the_server_is_closed_on_its_pages(world, room):
    ada, bob = room.enter("ada"), room.enter("bob")
    world.do("rooms.update", "ada", {"closed": True}, room=room.room_id)
    assert ada.failures
    assert bob.failures


def test_a_comment_comes_to_all_pages(world, room):
    ada, bob = room.enter("ada"), room.enter("bob")
    world.do("comments.add", "bob", {"node": 0, "text": "why?"}, room=room.room_id)
    for page, mine in ((ada, False), (bob, True)):
        page.until(lambda page: page.room.get("comments"))
        assert [(each["who"], each["text"], each["mine"]) for each in page.room["comments"]] == [("Bob", "why?", mine)]
