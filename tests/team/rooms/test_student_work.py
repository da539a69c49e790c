"""Work on an assignment in a room: the exercise is on its boards, the answers of whose work it is are kept, and the wall sees the plan."""

import asyncio
import json

import pytest
from sqlalchemy import select

from tests.support.room_sessions import first_plan
from tests.support.team_rooms import FailingStore, RoomTeam, VisitedRoom, within
from tests.support.team_server import make_services
from workbench.documents import dump_plan
from workbench.models import build
from workbench.plan.edits import ShardDim
from workbench.public_plan import Plan
from workbench.team.access import ProjectRole
from workbench.team.accounts.user_accounts import set_role
from workbench.team.actions.action import Inputs
from workbench.team.actions.all_actions import action_of
from workbench.team.actions.perform import Context, perform
from workbench.team.rooms.room_hub import RoomHub
from workbench.team.rooms.room_records import read_room
from workbench.team.store.tables import GalleryEntry, GivenAnswer, StudentWork
from workbench.team.web.team_services import ReplayedRoom
from workbench.widgets.glossary.lessons import LESSONS

GOALS = [{"goal": "computes_once", "hint": "Split the batch."}]


def exercise() -> str:
    plan = {"question": "plan", "name": "split", "ask": "Split it.", "start": "small", "may_change": ["layout"], "goals": GOALS}
    number = {"question": "number", "name": "devices", "ask": "How many devices?", "unit": "count", "answer": "8"}
    about = {"format": "sharding-workbench.exercise", "version": 1, "name": "small", "title": "A small plan"}
    return json.dumps({**about, "plans": {"small": json.loads(dump_plan(first_plan().updated(layout="")))}, "questions": [plan, number]})


def two_programs() -> str:
    """The same, with a question about another program."""
    found = json.loads(exercise())
    found["plans"]["other"] = json.loads(dump_plan(Plan(build("mnist"), "data:8")))
    found["questions"].append({**found["questions"][0], "name": "other", "start": "other"})
    return json.dumps(found)


class Class:
    """A student, `zoe`, in the team of the tests of rooms, and one assignment."""

    def __init__(self, team, hub, planners, folder, text="") -> None:
        self.team, self.hub = team, hub
        self.services = make_services(folder, team.store, planner=planners, rooms=hub)
        with team.store.write() as session:
            set_role(session, team.project_id, team.people["zoe"], ProjectRole.STUDENT)
        self.id = self.do("assignments.create", "ada", {"exercise": text or exercise()}, project="vision")["id"]

    def do(self, action, who, body=None, **path):
        context = Context(self.services, self.team.principal(who))
        return asyncio.run(perform(action_of(action), context, Inputs(path, {}, body)))

    def room(self, who="zoe") -> VisitedRoom:
        return VisitedRoom(self.team, self.hub, self.do("work.start", who, {}, assignment=self.id)["room"])

    def answers(self):
        with self.team.store.read() as session:
            return session.scalars(select(GivenAnswer).order_by(GivenAnswer.created)).all()

    def card(self, room):
        with self.team.store.read() as session:
            return session.get_one(StudentWork, room.room_id).card


@pytest.fixture
def lesson(team, hub, planners, tmp_path):
    return Class(team, hub, planners, tmp_path)


def panel(screen):
    return screen.board["board"]["exercise"]


def check(screen, **fields):
    """Press Check, and wait for the verdict."""
    before = panel(screen)["verdict"]
    screen.do("answer_question", **fields)
    return screen.until(
        lambda page: not panel(page)["checking"] and panel(page)["verdict"] not in (None, before) and panel(page)["verdict"]
    )


def test_the_text_of_an_assigned_lesson_is_next_to_the_board_and_runs_no_cell(team, hub, planners, tmp_path):
    zoe = Class(team, hub, planners, tmp_path, "one_product").room().enter("zoe")
    board = zoe.board["board"]
    assert board["lesson"]["title"] == LESSONS["one_product"]
    assert board["lesson"]["all"] is board["lesson"]["next"] is board["lesson"]["previous"] is None
    assert {block["kind"] for block in board["lesson_blocks"]} == {"html", "question", "code"}
    assert not any(block.get("outputs") or "?lesson=" in block.get("html", "") for block in board["lesson_blocks"])


def test_a_student_answers_in_a_room_and_the_wall_sees_it(lesson):
    room = lesson.room()
    zoe = room.enter("zoe")
    assert panel(zoe)["title"] == "A small plan"
    assert [each["met"] for each in panel(zoe)["goals"]] == [False]
    wrong = check(zoe)
    assert (wrong["right"], wrong["attempt"], wrong["hints"]) == (False, 1, ["Split the batch."])
    zoe.place("batch", "data")
    zoe.place("hidden", "model")
    assert [each["met"] for each in panel(zoe)["goals"]] == [True]
    assert check(zoe)["right"]
    answers = within(lambda: (found := lesson.answers()) and len(found) == 2 and found)
    assert [(each.question, each.attempt, each.score) for each in answers] == [("split", 1, 0.0), ("split", 2, 1.0)]
    assert all(each.digest and each.author_id == lesson.team.people["zoe"] for each in answers)
    card = within(lambda: (found := lesson.card(room)) and "hidden:model" in found["layout"] and found)
    assert card["ticks"]["split"] == [{"text": panel(zoe)["goals"][0]["text"], "met": True}]
    wall = lesson.do("work.wall", "ada", assignment=lesson.id)["items"]
    assert [(each["present"][0]["name"], each["score"]) for each in wall] == [("zoe", 1.0)]
    assert lesson.do("work.thumbnail", "ada", assignment=lesson.id, work=room.room_id)["svg"].startswith("<svg")


def test_a_room_can_be_read_while_the_wall_cannot_be_kept(planners, tmp_path):
    team = RoomTeam.begin(tmp_path, kind=FailingStore)
    hub = RoomHub(team.store, planners, "http://localhost:5007")
    room = Class(team, hub, planners, tmp_path).room()
    team.store.full = True
    zoe = room.enter("zoe")
    within(lambda: team.store.refused)
    zoe.do("question", name="devices")
    assert panel(zoe)["name"] == "devices"
    assert zoe.boards == 1
    assert zoe.notices == []
    hub.close()
    team.store.close()


def test_tries_are_known_when_a_room_is_opened_again(lesson, hub):
    room = lesson.room()
    check(room.enter("zoe"))
    within(lesson.answers)
    room.kill()
    zoe = room.screens["zoe"]
    zoe.until(lambda page: page.boards > 1)
    assert check(zoe)["attempt"] == 2


def test_a_teacher_looks_over_a_shoulder_and_counts_for_nobody(lesson):
    room = lesson.room()
    zoe, ada = room.enter("zoe"), room.enter("ada")
    ada.do("question", name="devices")
    assert panel(zoe)["name"] == "split", "each looks at a question of their own"
    assert check(ada, answer="8")["right"]
    assert zoe.board["board"]["exercise"]["questions"][1]["done"] is False
    zoe.do("question", name="devices")
    assert check(zoe, answer="9")["attempt"] == 1
    answers = within(lesson.answers)
    assert [(each.question, each.text, each.attempt) for each in answers] == [("devices", "9", 1)]


def test_the_same_answer_again_is_no_further_try(lesson):
    zoe = lesson.room().enter("zoe")
    assert check(zoe)["attempt"] == 1
    zoe.do("answer_question")
    assert "Same answer as before" in zoe.refusal
    zoe.place("batch", "data")
    assert check(zoe)["attempt"] == 2
    assert len(within(lambda: len(lesson.answers()) == 2 and lesson.answers())) == 2


def test_a_room_shows_its_deadline_as_it_is_now(lesson):
    zoe = lesson.room().enter("zoe")
    zoe.until(lambda page: page.room and page.room["until"] == "")
    lesson.do("assignments.update", "ada", {"deadline": "2040-06-30T18:00", "zone": "Europe/Berlin"}, assignment=lesson.id)
    zoe.until(lambda page: page.room["until"] == "Saturday, 30 June 2040, 18:00 (Europe/Berlin)")
    assert zoe.room["deadline"] > 2e9


def test_a_teacher_who_looks_at_another_question_leaves_the_board_as_it_is(team, hub, planners, tmp_path):
    lesson = Class(team, hub, planners, tmp_path, two_programs())
    room = lesson.room()
    zoe, ada = room.enter("zoe"), room.enter("ada")
    zoe.place("batch", "data")
    ada.do("question", name="other")
    assert panel(ada)["name"] == "other"
    assert (zoe.layout, ada.layout) == ("batch:data", "batch:data")
    assert len(lesson.team.log_of(room.room_id)) == 1
    zoe.do("question", name="other")
    zoe.until(lambda page: panel(page)["name"] == "other" and page.layout != "batch:data")


def test_who_only_looks_does_not_answer(lesson):
    room = lesson.room()
    vic = room.enter("vic")
    vic.do("answer_question")
    assert "To answer takes the role editor" in vic.refusal
    assert lesson.answers() == []


def test_a_student_enters_no_room_of_another_and_puts_nothing_into_the_gallery(lesson, team):
    other = lesson.room("bob")
    with pytest.raises(Exception, match="no room"):
        other.enter_at_once("zoe")
    zoe = lesson.room().enter("zoe")
    zoe.do("save", name="mine")
    zoe.until(lambda page: any("cannot be added to a gallery" in each["text"] for each in page.notices))
    with team.store.read() as session:
        assert session.scalars(select(GalleryEntry)).all() == []


def test_what_a_student_may_not_do_is_not_offered(lesson, team):
    """Neither to save into the gallery nor to run, to search or to branch off; a teacher in the same room is offered all of it."""
    room = lesson.room()
    zoe, ada = room.enter("zoe"), room.enter("ada")
    for each in (zoe, ada):
        each.until(lambda page: page.room)
    offered = [(each.board["board"]["files"]["saves"], each.board["live"]["runs"], each.room["branches"]) for each in (zoe, ada)]
    assert offered == [(False, False, False), (True, True, True)]
    assert ["find" in [tab["key"] for tab in each.board["board"]["tabs"]] for each in (zoe, ada)] == [False, True]


def push(lesson, **body):
    """Ada sends a plan to all, without being in any of the rooms."""
    return lesson.do("work.push", "ada", body, assignment=lesson.id)


def test_a_plan_that_is_sent_is_an_edit_that_a_student_takes_back(lesson):
    room, other = lesson.room(), lesson.room("bob")
    zoe, bob = room.enter("zoe"), other.enter("bob")
    zoe.place("batch", "data")
    bob.place("hidden", "model")
    assert push(lesson, work=other.room_id)["rooms"] == [room.room_id]
    zoe.until(lambda page: page.layout == "hidden:model")
    zoe.until(lambda page: any(each["title"] == "Ada sent you a plan of this class" for each in page.notices))
    zoe.until(lambda page: page.room["said"] and page.room["said"][0]["who"] == "Ada")
    zoe.do("undo")
    zoe.until(lambda page: page.layout == "batch:data")
    zoe.do("redo")
    zoe.until(lambda page: page.layout == "hidden:model")
    kinds = [(each.kind, each.author_id) for each in lesson.team.log_of(room.room_id)]
    ada, mine = lesson.team.people["ada"], lesson.team.people["zoe"]
    assert kinds == [("edit", mine), ("push", ada), ("undo", mine), ("redo", mine)]
    assert bob.layout == "hidden:model"


def test_a_plan_is_sent_into_a_room_that_is_not_open(lesson, hub, planners):
    room = lesson.room()
    assert push(lesson)["sent"] == 1
    assert lesson.card(room)["layout"] == ""
    zoe = room.enter("zoe")
    zoe.until(lambda page: any(each["title"] == "Ada sent you the start plan" for each in page.notices))
    zoe.place("batch", "data")
    assert [each.kind for each in lesson.team.log_of(room.room_id)] == ["push", "edit"]
    assert [each["text"] for each in steps(lesson, planners, room)] == [
        "it begins",
        "sent all the start plan",
        str(ShardDim("batch", ("data",))),
    ]


def test_a_room_that_was_closed_keeps_a_plan_from_no_other(lesson):
    rooms = [lesson.room(who) for who in ("zoe", "bob", "rosa")]
    lesson.do("rooms.update", "ada", {"closed": True}, room=rooms[1].room_id)
    assert push(lesson)["sent"] == 3
    assert [lesson.team.count_of(each.room_id) for each in rooms] == [1, 0, 1]


def steps(lesson, planners, room):
    """Edit in a room, as its replay tells it."""
    source = read_room(lesson.team.store, room.room_id)
    return asyncio.run(planners.ask(ReplayedRoom, "replay", document=source.document, log=source.log)).steps


def test_the_winners_edits_are_replayed_after_the_deadline(lesson):
    lesson.do("assignments.update", "ada", {"ranked": "split"}, assignment=lesson.id)
    room = lesson.room()
    zoe = room.enter("zoe")
    zoe.place("batch", "data")
    zoe.place("hidden", "model")
    check(zoe)
    within(lesson.answers)
    zoe.place("hidden", "", source="model")
    lesson.do("assignments.update", "ada", {"deadline": "2020-01-01T00:00"}, assignment=lesson.id)
    found = lesson.do("assignments.replay", "zoe", assignment=lesson.id, place="1")
    assert [each["layout"] for each in found["steps"]] == ["", "batch:data", "batch:data; hidden:model"], "up to the plan that is ranked"
    assert found["steps"][-1]["figures"]["peak_bytes"] < found["steps"][0]["figures"]["peak_bytes"]
    assert "zoe" not in str(found).lower()


def test_an_answer_after_the_deadline_says_that_it_does_not_count(lesson):
    zoe = lesson.room().enter("zoe")
    lesson.do("assignments.update", "ada", {"deadline": "2020-01-01T00:00"}, assignment=lesson.id)
    check(zoe)
    zoe.until(lambda page: any("The deadline has passed" in each["text"] for each in page.notices))
    assert [each.late for each in lesson.answers()] == [True]


def test_an_answer_from_elsewhere_is_graded_by_a_process(lesson):
    lesson.room()
    given = {"question": "split", "answer": dump_plan(first_plan().updated(layout="batch:data; hidden:model"))}
    assert lesson.do("answers.hand_in", "zoe", given, assignment=lesson.id)["score"] == 1.0
    bad = given["answer"].replace('"two_layer"', '"os:system"')
    with pytest.raises(Exception, match="names the program"):
        lesson.do("answers.hand_in", "zoe", {"question": "split", "answer": bad}, assignment=lesson.id)
