"""The pages of a class, as a teacher and as a student go through them; without a script."""

import csv
import io

import pytest

from tests.support.team_pages import in_thread, project_pages, read_page
from tests.support.team_world import document, exercise_document
from workbench.team.pages.form_handler import GRADES_FORM, fill
from workbench.team.pages.page_forms import ALL_FORMS
from workbench.team.rooms.room_records import keep_card

HERE = "/p/vision/assignments"
CLASS_FORMS = [*(each for each in ALL_FORMS if "/assignments/" in each.path), GRADES_FORM]
RIGHT = document("batch:data", hardware="TPU v5e 2x2")
CARD = {
    "layout": "batch:data",
    "mesh": "data:4",
    "figures": {"step_seconds": 1e-3, "peak_bytes": 2e6, "sent_bytes": 0, "fits": True},
    "ticks": {"split": [{"text": "Computes once.", "met": True}]},
}


class Week:
    """One assignment, from its hand-out to its grades; each test goes on where the last one ended."""

    def __init__(self, running, world) -> None:
        self.world, self.clients = world, {name: running.client(cookie) for name, cookie in world.cookies.items()}
        self.id = self.room = ""
        self.sent: set[str] = set()

    def send(self, who: str, form: str, fields=None, **path) -> str:
        assert any(form == each.path for each in CLASS_FORMS), form
        self.sent.add(form)
        path = {"assignment": self.id, "project": "vision", **path}
        answer = self.clients[who].post(fill(form, path), data=fields or {}, headers={"Referer": f"http://localhost{HERE}"})
        assert answer.status_code == 302, answer.text
        return answer.headers["Location"]

    def text(self, who: str, path: str = "") -> str:
        answer = self.clients[who].get(path or f"{HERE}/{self.id}")
        assert answer.status_code == 200, answer.text
        assert read_page(answer.text).scripts_within == []
        return read_page(answer.text).text

    def do(self, action: str, who: str, body=None, **path):
        return in_thread(lambda: self.world.do(action, who, body, **path))


@pytest.fixture(scope="module")
def week(running, world):
    found = Week(running, world)
    yield found
    for each in found.clients.values():
        each.close()


def test_a_teacher_hands_out_an_exercise(week):
    assert "No assignments yet" in week.text("sam", "/p/other/assignments")
    fields = {
        "exercise": exercise_document(),
        "name": "",
        "deadline": "2040-06-30T18:00",
        "zone": "Europe/Berlin",
        "size": "2",
        "ranked": "split",
    }
    where = week.send("ed", "/p/{project}/assignments/new", fields)
    week.id = where.rpartition("/")[2]
    text = week.text("ed")
    assert "A small plan is handed out." in text
    assert "Until Saturday, 30 June 2040, 18:00 (Europe/Berlin)" in text
    assert "No plan is ranked yet" in text


def test_a_lesson_is_assigned_by_its_name(week):
    assert "Pipelines and many models" in week.clients["ed"].get(HERE).text
    week.send("sam", "/p/{project}/assignments/new", {"exercise": ["", "one_product"], "deadline": "", "size": "1"}, project="other")
    assert "One product on two devices is handed out." in week.text("sam", "/p/other/assignments")


def test_what_is_no_exercise_is_said_where_it_was_typed(week):
    week.send("ed", "/p/{project}/assignments/new", {"exercise": '{"format": "x"}', "name": "Week 9"})
    page = week.clients["ed"].get(HERE).text
    assert "is JSON, but not an exercise" in read_page(page).text
    assert "Week 9" in page, "what was typed is still there"


def test_a_student_sees_assignments_and_nothing_else_of_the_project(week):
    assert week.clients["stu"].get("/p/vision/").headers["Location"] == HERE
    assert "2 assignments" in week.text("stu", "/")
    home = week.clients["stu"].get("/").text
    assert "<h1>Assignments</h1>" in home
    assert f'href="{HERE}/{week.id}">Begin' in home, "the page of an assignment for groups asks with whom"
    page = week.clients["stu"].get(HERE).text
    assert "not begun" in read_page(page).text
    tabs = [each.get("href") for each in read_page(page).of("a") if str(each.get("href")).startswith("/p/vision/")]
    assert not any(each.endswith(("/rooms", "/people", "/jobs", "/wall")) for each in tabs)
    others = {what: path for what, path in project_pages(week.world).items() if what not in ("assignments", "assignment")}
    for what, path in others.items():
        assert week.clients["stu"].get(path).status_code in (302, 403, 404), what
    for path in ("/wall", "/wall/live", "/scores.csv", "/scores.json"):
        assert week.clients["stu"].get(f"{HERE}/{week.id}{path}").status_code == 403


def test_a_student_begins_and_answers(week):
    where = week.send("stu", "/p/{project}/assignments/{assignment}/start", {"partners": ""})
    week.room = where.rpartition("/")[2]
    assert where == f"/room/{week.room}"
    week.do("answers.hand_in", "stu", {"question": "split", "answer": document("", hardware="TPU v5e 2x2")}, assignment=week.id)
    assert "not yet" in week.text("stu")
    week.do("answers.hand_in", "stu", {"question": "split", "answer": RIGHT}, assignment=week.id)
    text = week.text("stu")
    assert "✓ right" in text
    assert week.text("stu", HERE).count("1 of 3 right") == 2, "and of the week before"
    assert "mine" in text, "in the ranking"


def test_a_teacher_may_try_it_and_a_viewer_may_look(week):
    offered = {who: [word for word in ("Try it", "Begin", "Wall") if word in week.text(who)] for who in ("ed", "vic")}
    assert offered == {"ed": ["Try it", "Wall"], "vic": ["Wall"]}


def test_the_wall_shows_the_work_of_all(week):
    assert "not opened yet" in week.text("ed", f"{HERE}/{week.id}/wall")
    keep_card(week.world.store, week.room, CARD, "<svg></svg>")
    text = week.text("ed", f"{HERE}/{week.id}/wall")
    assert "Stu" in text
    assert "batch:data" in text
    assert "2 tries" in text
    part = week.clients["vic"].get(f"{HERE}/{week.id}/wall/live").json()
    assert "1 of 1 goals met now" in part["html"]
    assert part["over"] is False
    picture = week.clients["ed"].get(f"{HERE}/{week.id}/submissions/{week.room}/thumbnail.svg")
    assert (picture.headers["Content-Type"], picture.text) == ("image/svg+xml", "<svg></svg>")
    assert picture.headers["Content-Security-Policy"].endswith("sandbox")
    assert week.clients["ed"].get(f"{HERE}/{week.id}/submissions/aaaa/thumbnail.svg").status_code == 404


def test_a_teacher_sends_a_plan_to_all(week):
    other = week.do("work.start", "rosa", {}, assignment=week.id)["room"]
    assert "Send the plan of Stu to all" in week.clients["ed"].get(f"{HERE}/{week.id}/wall").text
    assert "Send the plan of Stu to all" not in week.clients["vic"].get(f"{HERE}/{week.id}/wall").text
    week.send("ed", "/p/{project}/assignments/{assignment}/push", {"work": week.room})
    assert "boards that have it now: 1." in week.text("ed", f"{HERE}/{week.id}/wall")
    assert week.world.services.rooms.pushed[-1][0] == other


def test_a_teacher_grades_and_releases(week):
    grade = GRADES_FORM.path
    other = week.do("work.start", "ada", {}, assignment=week.id)["room"]
    fields = {f"points.{week.room}": "2.5", f"remark.{week.room}": "=Neat, and `short`", f"points.{other}": "", f"remark.{other}": "Go on."}
    week.send("ed", grade, fields)
    assert "Saved: Ada, Stu." in week.text("ed")
    assert {each["remark"] for each in week.do("assignments.scores", "ed", assignment=week.id)["items"]} == {
        "=Neat, and `short`",
        "Go on.",
        "",
    }
    week.send("ed", grade, fields)
    assert "Saved: nothing was changed." in week.text("ed")
    assert "Neat" not in week.text("stu")
    week.send("ed", "/p/{project}/assignments/{assignment}/release", {"released": "true"})
    assert "2.5 of 3 points" in week.text("stu")
    week.send("ed", "/p/{project}/assignments/{assignment}/hide", {"released": "false"})
    assert "2.5 of 3 points" not in week.text("stu")
    rows = list(csv.DictReader(io.StringIO(week.clients["ed"].get(f"{HERE}/{week.id}/scores.csv").text)))
    assert [(each["name"], each["split"], each["points"], each["remark"]) for each in rows if each["student"] == "yes"] == [
        ("stu", "1", "2.5", "'=Neat, and `short`")
    ]
    results = week.clients["ed"].get(f"{HERE}/{week.id}/scores.json").json()
    assert results["stu"]["score"] == 2.5
    assert results["stu"]["tests"][0] == {"name": "split", "score": 1.0, "max_score": 1.0}
    week.send("ed", grade, {f"points.{week.room}": "", f"remark.{week.room}": ""})
    points = {each["room"]: each["points"] for each in week.do("assignments.scores", "ed", assignment=week.id)["items"]}
    assert points[week.room] == 1.0, "what was reached, again"


def test_the_first_plans_are_compiled(week):
    week.send("rosa", "/p/{project}/assignments/{assignment}/compile")
    assert "In the queue to be compiled: 1." in week.text("rosa")
    assert "being compiled" in week.text("stu")


def test_a_ranking_has_baselines_and_leads_to_how_the_winner_came_there(week):
    text = week.text("ed")
    assert "data parallelism alone" in text
    assert "the best of the recipes: Megatron tensor parallel" in text
    week.send("rosa", "/p/{project}/assignments/{assignment}/search")
    text = week.text("rosa")
    assert "The search is in the queue." in text
    assert "being searched for" in text
    part = week.clients["stu"].get(f"{HERE}/{week.id}/ranking/live").json()
    assert "being searched for" in part["html"]
    assert part["over"] is False
    assert "submitted from outside a room" in week.text("ed", f"{HERE}/{week.id}/ranking/1")
    assert week.clients["stu"].get(f"{HERE}/{week.id}/ranking/1").status_code == 403
    assert week.clients["ed"].get(f"{HERE}/{week.id}/ranking/9").status_code == 404


def test_an_assignment_is_changed_and_taken_back(week):
    week.send(
        "ed", "/p/{project}/assignments/{assignment}/change", {"name": "Week 4", "deadline": "", "zone": "UTC", "size": "1", "ranked": ""}
    )
    text = week.text("ed")
    assert "Week 4" in text
    assert "Without a deadline" in text
    assert "/withdraw" not in week.clients["ed"].get(f"{HERE}/{week.id}").text
    week.send("ada", "/p/{project}/assignments/{assignment}/withdraw")
    assert week.clients["stu"].get(f"{HERE}/{week.id}").status_code == 404
    assert week.clients["sam"].get(HERE).status_code == 404


def test_every_form_was_sent(week):
    assert {each.path for each in CLASS_FORMS} == week.sent
