"""Every form does what it says, says so on the next page, and works without a script. They are sent in the order of a working day."""

import re

import pytest

from tests.support.team_pages import project_pages, read_page
from tests.support.team_server import add_person, sign_in
from tests.support.team_store import wide_document
from tests.support.unwritable_stores import only_read
from workbench.team.pages.form_handler import WHEEL_FORM, fill
from workbench.team.pages.gallery_pages import zoo_choices
from workbench.team.pages.page_forms import ALL_FORMS
from workbench.team.store.tables import StoredJob

SENT: set[str] = set()
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def day(running, world):
    clients = {name: running.client(cookie) for name, cookie in world.cookies.items()}
    yield Day(running, world, clients)
    for each in clients.values():
        each.close()


class Day:
    def __init__(self, running, world, clients) -> None:
        self.running, self.world, self.clients = running, world, clients
        self.things = world.things["vision"]

    def send(self, who: str, form: str, fields=None, files=None, **path):
        """The answer to a form, which is one of the table."""
        assert any(form == each.path for each in (*ALL_FORMS, WHEEL_FORM)), form
        SENT.add(form)
        headers = {"Referer": f"{self.running.url}/p/vision/rooms?x=1"}
        return self.clients[who].post(fill(form, path), data=fields or {}, files=files, headers=headers)

    def done(self, who: str, form: str, fields=None, files=None, **path) -> tuple[str, str]:
        """Where it leads, and what is said there."""
        answer = self.send(who, form, fields, files, **path)
        assert answer.status_code == 302, answer.text
        where = answer.headers["Location"]
        return where, self.said(who, where if not where.startswith("/room/") else "/p/vision/rooms")

    def said(self, who: str, where: str) -> str:
        html = self.clients[who].get(where).text
        found = re.search(r'id="said">(.*?)</div>', html, re.DOTALL)
        return read_page(found[1]).text if found else ""


def test_a_project_is_made_changed_and_archived(day):
    where, said = day.done("ada", "/projects/new", {"name": "Speech", "slug": "speech", "description": "of the spring"})
    assert (where, said) == ("/p/speech/", "Project Speech created.")
    day.done("ada", "/p/{project}/change", {"name": "Speech models", "description": ""}, project="speech")
    assert day.world.do("projects.get", "ada", project="speech")["name"] == "Speech models"
    day.done("ada", "/p/{project}/archive", {"archived": "true"}, project="speech")
    assert day.world.do("projects.get", "ada", project="speech")["archived"] is not None
    assert "archived: nothing in it changes" in read_page(day.clients["ada"].get("/p/speech/people").text).text
    day.done("ada", "/p/{project}/archive", {"archived": "false"}, project="speech")
    assert day.world.do("projects.get", "ada", project="speech")["archived"] is None


def test_a_message_is_said_once_and_to_one_person(day):
    day.send("ada", "/p/{project}/change", {"name": "Speech"}, project="speech")
    cookie = day.clients["ada"].cookies["workbench-said"]
    day.clients["ed"].cookies.set("workbench-said", cookie)
    assert day.said("ed", "/") == ""
    assert day.said("ada", "/") == "Saved."
    assert day.said("ada", "/") == ""


def test_a_plan_is_put_in_renamed_forked_opened_and_taken_out(day):
    fields = {"name": "Mine", "note": "a try", "document": wide_document("data:2", "batch:data")}
    begun = {"name": "First", "program": next(iter(zoo_choices()))[0], "devices": "4"}
    where, said = day.done("ed", "/p/{project}/begin", begun, project="vision")
    assert said == "First is in the gallery: open it in a room."
    found = day.world.do("plans.get", "ed", entry=where.rpartition("/")[2])
    assert (found["target"], found["mesh"], found["name"]) == ("two_layer", "data:4", "First")
    where, _ = day.done("ed", "/p/{project}/begin", {**begun, "name": "", "devices": "2"}, project="vision")
    assert day.world.do("plans.get", "ed", entry=where.rpartition("/")[2])["name"] == "two_layer"
    where, said = day.done("ed", "/p/{project}/plans/new", fields, project="vision")
    assert said == "Mine is in the gallery."
    entry = where.rpartition("/")[2]
    day.done("ed", "/p/{project}/plans/{entry}/change", {"name": "Ours", "note": "two\r\nlines"}, project="vision", entry=entry)
    assert day.world.do("plans.get", "ed", entry=entry)["note"] == "two\nlines"
    where, said = day.done("rosa", "/p/{project}/plans/{entry}/fork", {"project": "vision"}, project="vision", entry=entry)
    assert day.world.do("plans.get", "rosa", entry=where.rpartition("/")[2])["forked_from"]["id"] == entry
    assert said.startswith("This is your fork of Ours")
    where, said = day.done("rosa", "/p/{project}/plans/{entry}/open", project="vision", entry=entry)
    assert said == ""
    assert day.world.do("rooms.get", "rosa", room=where.rpartition("/")[2])["by"]["name"] == "rosa"
    where, _ = day.done("ed", "/p/{project}/plans/{entry}/withdraw", project="vision", entry=entry)
    assert where == "/p/vision/"
    assert day.world.do("plans.get", "ed", entry=entry)["withdrawn"] is not None


def test_a_room_is_opened_branched_closed_and_opened_again(day):
    room = day.world.do("rooms.get", "ed", room=day.things["rooms"][1])
    where, _ = day.done("ed", "/p/{project}/rooms/new", {"plan": room["present"], "name": "Less memory, branched"}, project="vision")
    branch = where.rpartition("/")[2]
    assert day.world.do("rooms.get", "ed", room=branch)["first"] == room["present"]
    where, said = day.done("ed", "/p/{project}/rooms/{room}/close", {"closed": "true"}, project="vision", room=branch)
    assert (where, said) == ("/p/vision/rooms", "Less memory, branched is closed.")
    assert day.world.do("rooms.get", "ed", room=branch)["closed"] is not None
    day.done("ed", "/p/{project}/rooms/{room}/open", {"closed": "false"}, project="vision", room=branch)
    assert day.world.do("rooms.get", "ed", room=branch)["closed"] is None


def test_a_job_is_started_and_cancelled(day):
    fields = {"plan": day.things["entries"][0], "kind": "run", "engine": "here", "steps": "7", "minutes": "15"}
    where, said = day.done("rosa", "/p/{project}/jobs/new", fields, project="vision")
    assert said == "The job is in the queue."
    job = where.rpartition("/")[2]
    day.done("rosa", "/p/{project}/jobs/{job}/cancel", project="vision", job=job)
    with day.world.store.read() as session:
        row = session.get_one(StoredJob, job)
    assert (row.spec["steps"], row.cancel_asked is not None) == (7, True)


def test_programs_are_registered_approved_and_withdrawn(day):
    git = {"name": "New one", "target": "ours.new:build", "locator": "https://git.example.org/m.git 4f2a"}
    _, said = day.done("ada", "/p/{project}/programs/git", git, project="vision")
    assert said == "New one is registered and waits for approval."
    wheel = {"wheel": ("ours-2-py3-none-any.whl", b"PK\x03\x04", "application/zip")}
    day.done("ada", "/p/{project}/programs/wheel", {"name": "As a wheel", "target": "ours.two:build"}, files=wheel, project="vision")
    found = {each["name"]: each for each in day.world.do("programs.list", "ada", project="vision")["items"]}
    assert (found["As a wheel"]["kind"], found["As a wheel"]["locator"]) == ("wheel", "ours-2-py3-none-any.whl")
    program = found["New one"]
    day.done("ada", "/p/{project}/programs/{program}/approve", {"digest": program["digest"]}, project="vision", program=program["id"])
    assert day.world.do("programs.get", "ada", program=program["id"])["state"] == "approved"
    day.done("ada", "/p/{project}/programs/{program}/withdraw", project="vision", program=program["id"])
    assert day.world.do("programs.get", "ada", program=program["id"])["state"] == "withdrawn"


def test_people_come_change_roles_and_go(day):
    _, said = day.done("ada", "/p/{project}/people/add", {"person": "sam", "role": "editor"}, project="vision")
    assert said == "Added as editor: Sam."
    _, said = day.done("ada", "/p/{project}/people/add", {"person": "vic, sam rosa", "role": "editor"}, project="vision")
    assert said == "Added as editor: Vic, Sam, Rosa.", "a class is put in at once"
    for name, role in (("vic", "viewer"), ("rosa", "runner")):
        day.done("ada", "/p/{project}/people/add", {"person": name, "role": role}, project="vision")
    _, said = day.done("ada", "/p/{project}/people/{person}/role", {"role": "runner"}, project="vision", person="sam")
    assert said == "Sam is runner now."
    day.done("ada", "/p/{project}/people/{person}/remove", project="vision", person="sam")
    names = [each["name"] for each in day.world.do("members.list", "ada", project="vision")["items"]]
    assert "sam" not in names
    day.done("ada", "/p/{project}/people/add", {"person": "sam", "role": "viewer"}, project="vision")
    assert day.done("sam", "/p/{project}/leave", project="vision") == ("/", "You left the project.")


@pytest.mark.parametrize(
    ("who", "form", "fields", "begins"),
    [
        ("ada", "/p/{project}/people/invite", {"role": "editor", "days": "3", "note": ""}, "http://localhost"),
        ("root", "/admin/invite", {"has": "admin", "days": "3", "note": "for Tim"}, "http://localhost"),
        ("rosa", "/account/tokens/new", {"name": "mine", "scopes": ["read", "run"], "days": ""}, ""),
    ],
)
def test_a_secret_is_shown_once_and_never_again(day, who, form, fields, begins):
    answer = day.send(who, form, fields, project="vision")
    assert answer.status_code == 200
    secret = next(str(each["value"]) for each in read_page(answer.text).of("input") if each.get("id") == "secret")
    assert secret.startswith(begins)
    assert len(secret) > 40
    for path in ("/account", "/p/vision/people") if who != "root" else ("/admin", "/admin/audit"):
        assert secret not in day.clients[who].get(path).text


def test_links_are_made_and_ended(day):
    room, entry = day.things["rooms"][0], day.things["entries"][0]
    for form, fields in (("room", {"room": room, "role": "viewer", "days": "5"}), ("plan", {"entry": entry, "days": "5"})):
        answer = day.send("ed", f"/p/{{project}}/links/{form}", fields, project="vision")
        address = next(str(each["value"]) for each in read_page(answer.text).of("input") if each.get("id") == "secret")
        where = day.clients["sam"].get("/" + address.partition("//")[2].partition("/")[2])
        assert (where.status_code, where.headers.get("Location")) == ((302, f"/room/{room}") if form == "room" else (200, None))
    share = day.world.do("shares.list", "ed", project="vision")["items"][0]["id"]
    assert day.done("ed", "/p/{project}/links/{share}/end", project="vision", share=share)[1] == "The link is ended."


def test_hardware_is_set_and_removed(day):
    fields = {
        "name": "new",
        "hardware": "TPU v5e 4x4",
        "dollars_per_device_hour": "1.25",
        "engine": "slurm",
        "options": "partition=a\r\nqos = b",
        "note": "",
    }
    day.done("ada", "/p/{project}/hardware/set", fields, project="vision")
    found = next(each for each in day.world.do("hardware.list", "vic", project="vision")["items"] if each["name"] == "new")
    assert (found["dollars_per_device_hour"], found["options"]) == (1.25, {"partition": "a", "qos": "b"})
    page = read_page(day.clients["ada"].get("/p/vision/hardware?change=new").text)
    assert {"new", "TPU v5e 4x4", "1.25"} <= {each.get("value") for each in page.of("input")}
    day.done("ada", "/p/{project}/hardware/{hardware}/remove", project="vision", hardware="new")


def test_an_account_changes_its_name_and_ends_logins_and_tokens(day):
    _, said = day.done("vic", "/account/name", {"display": "Victoria"})
    assert said == "Your display name is now Victoria."
    sign_in(day.world.store, day.world.people["vic"])
    other = logins(day)[0]["id"]
    day.done("vic", "/account/logins/{login}/end", login=other)
    assert other not in {each["id"] for each in logins(day)}
    token = day.world.do("tokens.list", "vic")["items"][0]["id"]
    day.done("vic", "/account/tokens/{token}/end", token=token)
    assert day.world.do("tokens.list", "vic")["items"] == []


def logins(day) -> list:
    """Of Vic's, the newest: not that of the client."""
    return day.world.do("me.logins", "vic")["items"][:1]


def test_administrators_change_people_and_limits(day):
    add_person(day.world.store, "tim")
    day.done("root", "/admin/people/{person}/change", {"active": "false"}, person="tim")
    assert not day.world.do("people.list", "root", query={"q": "tim"})["items"][0]["active"]
    day.done("root", "/admin/limits/{setting}", {"value.per_person": "60", "value.minutes": "30"}, setting="jobs")
    found = {each["key"]: each["value"] for each in day.world.do("settings.list", "root")["items"]}
    assert found["jobs"] == {"per_person": 60, "minutes": 30}


def test_every_form_of_the_table_was_sent():
    of_a_class = {each.path for each in ALL_FORMS if "/assignments/" in each.path}  # sent in `test_class_pages`
    assert {each.path for each in (*ALL_FORMS, WHEEL_FORM)} - SENT == of_a_class


def test_what_was_refused_is_said_where_the_form_is_with_the_ways_out(day):
    answer = day.send("vic", "/p/{project}/rooms/new", {"plan": day.things["entries"][0]}, project="vision")
    assert answer.headers["Location"] == "/p/vision/rooms?x=1"
    said = day.said("vic", "/p/vision/rooms")
    assert "Error To open a room from a plan takes an editor of the project, and you are a viewer." in said
    assert "ask an owner of the project" in said


def test_what_cannot_be_stored_is_said_where_the_form_is(day):
    with only_read(day.world.store):
        answer = day.send("ada", "/projects/new", {"name": "Weather", "slug": "weather"})
        assert answer.headers["Location"] == "/p/vision/rooms?x=1"
        said = day.said("ada", "/")
    assert "The server may not write to its disk, so nothing was changed." in said
    assert "weather" not in day.clients["ada"].get("/").text


def test_a_form_leads_to_no_other_server(day):
    path = "/p/vision/rooms/new"
    answer = day.clients["vic"].post(path, data={"plan": "x"}, headers={"Referer": "https://evil.example//evil.example/"})
    assert answer.headers["Location"] == "/"
    foreign = day.clients["ed"].post(path, data={"plan": "x"}, headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403


def test_the_address_of_a_form_is_loaded_again_as_a_page(day):
    for path, page in (("/p/vision/rooms/new", "/p/vision/"), ("/p/vision/people/add", "/p/vision/people"), ("/projects/new", "/")):
        assert day.clients["ed"].get(path).headers["Location"] == page


def test_a_password_is_changed_by_who_knows_it_and_other_browsers_are_out(day):
    person = add_person(day.world.store, "una", password=PASSWORD)
    here, there = (day.running.client(sign_in(day.world.store, person)) for _ in range(2))
    with here, there:
        for old, new, says in (
            ("wrong", "a new long password", "Error"),
            (PASSWORD, "short", "Error"),
            (PASSWORD, "a new long password", "Password changed"),
        ):
            assert there.get("/account").status_code == 200
            here.post("/account/password", data={"old_password": old, "new_password": new})
            assert says in read_page(here.get("/account").text).text
        assert there.get("/account").status_code == 302
        login = day.running.client().post("/login", data={"name": "una", "password": "a new long password"})
        assert login.status_code == 302


def test_all_pages_still_answer_after_the_day(day):
    for what, path in project_pages(day.world).items():
        assert day.clients["ada"].get(path).status_code == 200, what
