"""Accounts, tokens, projects and roles; limits; what the audit says."""

import pytest

from tests.support.team_world import ROLES
from workbench.errors import WorkbenchError
from workbench.team.access import ConflictError, ForbiddenError, InputError, MissingError, NotSignedInError, ProjectRole
from workbench.team.accounts.revocations import principal_of_token
from workbench.team.accounts.user_accounts import make_personal_project
from workbench.team.actions.held_roles import role_in_project
from workbench.team.store.store import now
from workbench.team.store.tables import AuditEntry, Login, User


def test_each_person_has_a_project_alone(world):
    found = world.do("me.get", "vic")
    assert [(each["project"], each["role"], each["personal"]) for each in found["projects"]] == [
        ("vic", "owner", True),
        ("vision", "viewer", False),
    ]
    with world.store.write() as session:
        user = session.get_one(User, world.people["vic"])
        assert make_personal_project(session, user).slug == "vic"
    with pytest.raises(ConflictError, match="your personal project"):
        world.do("me.leave", "vic", project="vic")
    with pytest.raises(ConflictError, match="The owner of a personal project"):
        world.do("members.set", "root", {"role": "viewer"}, project="vic", person="vic")


def test_an_administrator_owns_every_project_and_lists_their_own(world):
    with world.store.read() as session:
        root = session.get_one(User, world.people["root"])
        assert role_in_project(session, root, world.things["other"]["id"]) is ProjectRole.OWNER
    assert [each["slug"] for each in world.do("projects.list", "root")["items"]] == ["root"]
    assert world.do("plans.mine", "root")["items"] == []


def test_a_project_keeps_an_owner(world):
    world.do("members.set", "ada", {"role": "owner"}, project="vision", person="ed")
    world.do("members.set", "ed", {"role": "viewer"}, project="vision", person="ada")
    for action, body in (("members.set", {"role": "editor"}), ("members.remove", None)):
        with pytest.raises(ConflictError, match="would have no owner"):
            world.do(action, "ed", body, project="vision", person="ed")
    with pytest.raises(ConflictError, match="would have no owner"):
        world.do("me.leave", "ed", project="vision")
    world.do("me.leave", "ada", project="vision")
    with pytest.raises(MissingError):
        world.do("projects.get", "ada", project="vision")


def test_a_slug_is_taken_once_and_many_projects_are_too_many(world):
    with pytest.raises(ConflictError, match="The name `other` is taken"):
        world.do("projects.create", "ada", {"slug": "other", "name": "x"})
    world.do("settings.set", "root", {"value": {"per_person": 1}}, setting="projects")
    with pytest.raises(ConflictError, match="You have 1 of 1: projects you own"):
        world.do("projects.create", "ada", {"slug": "third", "name": "x"})


@pytest.mark.parametrize("value", [{"per_person": -1}, {"per_person": 1, "x": 2}, {}, {"days": 3}])
def test_a_setting_is_held_against_its_schema(world, value):
    with pytest.raises(InputError):
        world.do("settings.set", "root", {"value": value}, setting="projects")
    with pytest.raises(MissingError):
        world.do("settings.set", "root", {"value": {}}, setting="nosuch")


def test_a_token_gives_no_more_than_it_has(world):
    made = world.do("tokens.create", "vic", {"name": "ci", "scopes": ["read", "manage"], "days": 2})
    principal = principal_of_token(world.store, made["secret"])
    assert principal.scopes == {"read", "manage"}
    assert made["secret"] not in str(world.dump())
    world.principal = lambda *_: principal
    with pytest.raises(ForbiddenError, match="cannot grant permissions that it lacks: `edit`"):
        world.do("tokens.create", "vic", {"name": "more", "scopes": ["edit"]})
    child = world.do("tokens.create", "vic", {"name": "same", "scopes": ["read"]})
    assert child["token"]["expires"] == made["token"]["expires"]


def test_what_is_revoked_or_disabled_is_over_at_once(world):
    principal = principal_of_token(world.store, world.tokens["vic"])
    world.do("people.update", "root", {"active": False}, person="vic")
    assert principal_of_token(world.store, world.tokens["vic"]) is None
    with pytest.raises(NotSignedInError):
        world.do("me.get", "vic")
    with world.store.read() as session:
        assert session.query(Login).filter_by(user_id=principal.user_id, revoked=None).count() == 0
    world.do("people.update", "root", {"active": True}, person="vic")
    world.do("tokens.revoke", "vic", token=principal.key)
    assert principal_of_token(world.store, world.tokens["vic"]) is None


def test_there_is_always_an_administrator(world):
    for body in ({"admin": False}, {"active": False}):
        with pytest.raises(WorkbenchError, match="administrator"):
            world.do("people.update", "root", body, person="root")
    world.do("people.update", "root", {"admin": True}, person="ada")
    assert world.do("people.update", "root", {"admin": False}, person="root")["admin"] is False


def test_who_is_no_administrator_any_more_is_refused_though_the_login_says_so(world):
    world.do("people.update", "root", {"admin": True}, person="ada")
    with world.store.write() as session:
        session.get_one(User, world.people["root"]).admin = False
    with pytest.raises(ForbiddenError):
        world.do("people.list", "root")


def test_the_audit_says_who_did_what_and_has_no_secrets(world):
    link = world.do("shares.of_room", "ada", {"days": 3}, room=world.things["vision"]["room"])
    invitation = world.do("members.invite", "ada", {"role": "editor"}, project="vision")
    found = world.do("audit.of_project", "ada", query={"person": "ada"}, project="vision")["items"]
    assert [each["action"] for each in found[:2]] == ["members.invite", "shares.of_room"]
    assert (found[1]["subject"], found[1]["details"]["role"]) == (link["id"], "viewer")
    with world.store.read() as session:
        text = str([(each.subject, each.details) for each in session.query(AuditEntry)])
    for address in (link["address"], invitation["address"]):
        assert address.rpartition("/")[2] not in str(world.dump())
        assert address.rpartition("/")[2] not in text
    assert {each["project"] for each in world.do("audit.of_project", "sam", project="other")["items"]} == {"other"}


def test_ones_logins_are_listed_and_ended(world):
    [login] = world.do("me.logins", "vic")["items"]
    assert world.do("me.sign_out", "vic", login=login["id"]) == {}
    assert world.do("me.logins", "vic")["items"] == []
    with pytest.raises(MissingError):
        world.do("me.sign_out", "vic", login=login["id"])


def test_people_are_found_by_a_part_of_their_names(world):
    assert [each["name"] for each in world.do("people.list", "root", query={"q": "ROS"})["items"]] == ["rosa"]
    assert world.do("people.list", "root", query={"q": "%"})["items"] == []
    assert [each["name"] for each in world.do("people.list", "root", query={"active": "false"})["items"]] == ["dora"]
    assert len(world.do("members.list", "vic", project="vision")["items"]) == len(ROLES) + 1


def test_a_member_is_found_by_name_and_must_be_active(world):
    with pytest.raises(MissingError, match="There is no person `nobody`"):
        world.do("members.set", "ada", {"role": "viewer"}, project="vision", person="nobody")
    with pytest.raises(ConflictError, match="`dora` is disabled"):
        world.do("members.set", "sam", {"role": "viewer"}, project="other", person="dora")
    assert world.do("members.set", "ada", {"role": "runner"}, project="vision", person="sam")["since"] <= now()
