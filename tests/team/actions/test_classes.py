"""A class: what a student sees and does, what a teacher sees of all, deadlines, pairs, grades and the ranking of plans."""

import json
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from tests.support.team_rooms import within
from tests.support.team_server import add_person
from tests.support.team_world import document, exercise_document
from workbench.errors import WorkbenchError
from workbench.team.access import ConflictError, ForbiddenError, InputError, MissingError, ProjectRole
from workbench.team.accounts.user_accounts import set_role
from workbench.team.actions.classes.baselines import SearchedBaselines
from workbench.team.actions.held_roles import role_in_room
from workbench.team.planning.grade_answers import find_baselines
from workbench.team.rooms.room_records import keep_card, principal_of_user, role_of
from workbench.team.store.tables import StoredFigures, StoredJob, StoredRoom, User

RIGHT, WRONG = document("batch:data", hardware="TPU v5e 2x2"), document("", hardware="TPU v5e 2x2")


@pytest.fixture
def assignment(world) -> str:
    body = {"exercise": exercise_document(), "ranked": "split", "size": 2, "deadline": "2040-06-30T18:00", "zone": "Europe/Berlin"}
    return world.do("assignments.create", "ed", body, project="vision")["id"]


@pytest.fixture
def tim(world) -> str:
    """A second student."""
    world.people["tim"] = add_person(world.store, "tim")
    with world.store.write() as session:
        set_role(session, world.things["vision"]["id"], world.people["tim"], ProjectRole.STUDENT)
    return "tim"


def held(world, name, room_id):
    with world.store.read() as session:
        return role_in_room(session, session.get_one(User, world.people[name]), session.get_one(StoredRoom, room_id))


def answer(world, who, assignment, question="split", given=RIGHT):
    return world.do("answers.hand_in", who, {"question": question, "answer": given}, assignment=assignment)


def test_an_assignment_says_what_it_asks_and_until_when(world, assignment):
    found = world.do("assignments.get", "stu", assignment=assignment)
    assert (found["title"], found["points"], found["work"]) == ("A small plan", 3.0, None)
    assert [(each["name"], each["kind"]) for each in found["questions"]] == [("split", "plan"), ("devices", "number"), ("which", "choice")]
    assert found["deadline_text"] == "Saturday, 30 June 2040, 18:00 (Europe/Berlin)"
    assert found["deadline"] == datetime(2040, 6, 30, 16, tzinfo=UTC).timestamp(), "summer time"
    assert "right" not in str(found), "no answer is handed out with the question"
    later = world.do("assignments.update", "ed", {"zone": "America/New_York"}, assignment=assignment)
    assert later["deadline"] - found["deadline"] == 6 * 3600, "the clock stays, the zone changes"
    assert world.do("assignments.update", "ed", {"deadline": ""}, assignment=assignment)["deadline"] is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"zone": "Mars/Olympus", "deadline": "2030-01-01T10:00"}, "no time zone"),
        ({"deadline": "2030-02-30T10:00"}, "not a date and time"),
        ({"ranked": "devices"}, "no question about a plan"),
        ({"ranked": "splat"}, "split"),
    ],
)
def test_a_teacher_hears_what_cannot_be(world, assignment, body, words):
    with pytest.raises(InputError) as error:
        world.do("assignments.update", "ed", body, assignment=assignment)
    assert words in str(error.value)


def test_a_student_sees_work_of_their_own_and_nothing_else(world, assignment, tim):
    work = world.do("work.start", "stu", {}, assignment=assignment)
    assert world.do("work.start", "stu", {}, assignment=assignment) == work, "the same one again"
    other = world.do("work.start", tim, {}, assignment=assignment)
    assert held(world, "stu", work["room"]) is ProjectRole.EDITOR
    assert held(world, "stu", other["room"]) is ProjectRole.STUDENT
    assert role_of(world.store, principal_of_user(world.store, world.people["stu"]), other["room"]) is None, "no page of it"
    assert world.do("rooms.get", "stu", room=work["room"])["name"] == "A small plan: Stu"
    for action, path in (
        ("rooms.get", {"room": other["room"]}),
        ("rooms.list", {"project": "vision"}),
        ("plans.list", {"project": "vision"}),
        ("work.wall", {"assignment": assignment}),
        ("assignments.scores", {"assignment": assignment}),
    ):
        with pytest.raises(ForbiddenError):
            world.do(action, "stu", **path)
    with pytest.raises(MissingError):
        world.do("plans.by_digest", "stu", digest=world.things["vision"]["digest"])
    assert work["room"] not in [each["id"] for each in world.do("rooms.list", "ada", project="vision")["items"]]


def test_two_students_work_together_and_share_answers(world, assignment, tim):
    work = world.do("work.start", "stu", {"partners": [tim]}, assignment=assignment)
    assert [each["name"] for each in work["people"]] == ["stu", "tim"]
    answer(world, tim, assignment)
    assert world.do("assignments.get", "stu", assignment=assignment)["work"]["score"] == 1.0
    assert held(world, tim, work["room"]) is ProjectRole.EDITOR


def test_who_has_begun_or_is_not_in_the_class_is_no_partner(world, assignment, tim):
    world.do("work.start", tim, {}, assignment=assignment)
    with pytest.raises(ConflictError, match="Tim has already started"):
        world.do("work.start", "stu", {"partners": [tim]}, assignment=assignment)
    with pytest.raises(MissingError):
        world.do("work.start", "stu", {"partners": ["sam"]}, assignment=assignment)
    with pytest.raises(InputError, match="maximum group size of 2"):
        world.do("work.start", "stu", {"partners": ["ed", "rosa"]}, assignment=assignment)
    with pytest.raises(InputError, match="Vic is a viewer of the project; only students work on assignments"):
        world.do("work.start", "stu", {"partners": ["vic"]}, assignment=assignment)


def test_a_viewer_starts_no_assignment_and_hands_nothing_in(world, assignment):
    said = "takes a student of the project, but no viewer, and you are a viewer"
    with pytest.raises(ForbiddenError, match=f"To begin an assignment, alone or with others {said}"):
        world.do("work.start", "vic", {}, assignment=assignment)
    work = world.do("work.start", "stu", {}, assignment=assignment)
    world.do("members.set", "ada", {"role": "viewer"}, project="vision", person="stu")
    with pytest.raises(ForbiddenError, match=said):
        answer(world, "stu", assignment)
    assert world.do("assignments.get", "stu", assignment=assignment)["work"] == work, "it can still be seen"
    assert held(world, "stu", work["room"]) is ProjectRole.VIEWER


def test_the_best_answer_in_time_counts_and_each_is_kept(world, assignment):
    world.do("work.start", "stu", {}, assignment=assignment)
    wrong = answer(world, "stu", assignment, given=WRONG)
    assert (wrong["attempt"], wrong["score"], wrong["hints"]) == (1, 0.0, ["Split the batch."])
    assert answer(world, "stu", assignment)["attempt"] == 2
    assert answer(world, "stu", assignment, given=WRONG)["score"] == 0.0
    assert answer(world, "stu", assignment, "devices", "4")["score"] == 1.0
    reached = world.do("assignments.get", "stu", assignment=assignment)["work"]["questions"]
    assert [(each["tries"], each["score"], each["right"]) for each in reached] == [(3, 1.0, True), (1, 1.0, True), (0, 0.0, False)]
    assert [each["attempt"] for each in world.do("answers.list", "stu", assignment=assignment)["items"]] == [1, 2, 3, 1]


def test_an_answer_after_the_deadline_is_kept_and_does_not_count(world, assignment):
    world.do("work.start", "stu", {}, assignment=assignment)
    world.do("assignments.update", "ed", {"deadline": "2020-01-01T00:00"}, assignment=assignment)
    assert answer(world, "stu", assignment)["late"]
    row = next(each for each in scores(world, assignment) if each["person"]["name"] == "stu")
    assert (row["reached"], row["late"]) == (0.0, 1)


@pytest.mark.parametrize(
    ("question", "given", "words"),
    [("splat", "4", "split"), ("split", "4", "asks for a plan"), ("split", '{"format": 1}', "asks for a plan")],
)
def test_what_answers_no_question_is_refused(world, assignment, question, given, words):
    world.do("work.start", "stu", {}, assignment=assignment)
    before = world.dump()
    with pytest.raises(Exception, match=words):
        answer(world, "stu", assignment, question, given)
    assert world.dump() == before


def test_nobody_answers_without_having_begun(world, assignment):
    with pytest.raises(ConflictError, match="have not started"):
        answer(world, "stu", assignment)


def scores(world, assignment):
    return world.do("assignments.scores", "ed", assignment=assignment)["items"]


def test_a_teacher_remarks_and_grades_and_students_see_it_when_it_is_released(world, assignment, tim):
    work = world.do("work.start", "stu", {}, assignment=assignment)
    answer(world, "stu", assignment)
    world.do("work.grade", "ed", {"remark": "Neat.", "points": 2.5}, assignment=assignment, work=work["room"])
    before = world.do("assignments.get", "stu", assignment=assignment)["work"]
    assert (before["points"], before["remark"]) == (None, "")
    world.do("assignments.update", "ed", {"released": True}, assignment=assignment)
    after = world.do("assignments.get", "stu", assignment=assignment)["work"]
    assert (after["points"], after["remark"]) == (2.5, "Neat.")
    rows = {each["person"]["name"]: each for each in scores(world, assignment)}
    assert (rows["stu"]["points"], rows["stu"]["reached"], rows["stu"]["most"]) == (2.5, 1.0, 3.0)
    assert (rows[tim]["points"], rows[tim]["room"]) == (0.0, None), "who has not begun has a row"
    with pytest.raises(MissingError):
        world.do("work.grade", "ed", {"points": 1}, assignment=assignment, work=world.things["vision"]["work"])


def test_the_wall_shows_who_is_stuck_first_and_who_has_not_begun(world, assignment, tim):
    mine = world.do("work.start", "rosa", {}, assignment=assignment)
    answer(world, "rosa", assignment)
    stuck = world.do("work.start", "stu", {}, assignment=assignment)
    keep_card(world.store, stuck["room"], {"layout": "none", "ticks": {}}, "<svg></svg>")
    for _ in range(3):
        answer(world, "stu", assignment, given=WRONG)
    world.services.rooms.present = [world.people["stu"]]
    wall = world.do("work.wall", "ed", assignment=assignment)
    assert [(each["room"], each["stuck"]) for each in wall["items"]] == [(stuck["room"], True), (mine["room"], False)]
    assert wall["items"][0]["card"]["layout"] == "none"
    assert world.do("work.thumbnail", "ed", assignment=assignment, work=stuck["room"]) == {"svg": "<svg></svg>"}
    assert [each["name"] for each in wall["items"][0]["present"]] == ["stu"]
    assert [each["name"] for each in wall["without"]] == ["tim"]


def test_right_plans_are_ranked_and_the_first_ten_by_their_compiler(world, assignment, tim):
    slow = document("hidden:data", hardware="TPU v5e 2x2")
    for who, given in (("stu", RIGHT), (tim, slow), ("rosa", WRONG)):
        world.do("work.start", who, {}, assignment=assignment)
        answer(world, who, assignment, given=given)
    board = world.do("assignments.ranking", "ed", assignment=assignment)
    assert len(board["items"]) == 2
    assert "rosa" not in str(board["items"]), "a wrong plan has no place"
    assert board["items"][0]["planned"]["step_seconds"] <= board["items"][-1]["planned"]["step_seconds"]
    seen = world.do("assignments.ranking", "stu", assignment=assignment)["items"]
    assert [each["mine"] for each in seen].count(True) == 1
    assert all(each["people"] == [] and each["digest"] is None for each in seen if not each["mine"]), "no names for students"
    assert world.do("assignments.compile", "rosa", assignment=assignment)["submitted"] == len(board["items"])
    assert world.do("assignments.compile", "rosa", assignment=assignment)["submitted"] == 0, "they are on their way"
    first = board["items"][0]["digest"]
    with world.store.write() as session:
        for each in session.scalars(select(StoredJob).where(StoredJob.digest == first)):
            each.state, each.problem = "failed", "No plug-in."
    assert [each["problem"] for each in world.do("assignments.ranking", "ed", assignment=assignment)["items"]] == ["No plug-in.", ""]
    with world.store.write() as session:
        own = {"digest": first, "tier": "compiled", "version": "1", "job_id": None, "created": 1.0, "thumbnail": ""}
        session.add(StoredFigures(**own, values={"step_seconds": 1e6}))
    after = world.do("assignments.ranking", "ed", assignment=assignment)["items"]
    assert after[-1]["digest"] == first, "the compiler has the last word"


def baselines(world, who, assignment):
    return world.do("assignments.ranking", who, assignment=assignment)["baselines"]


def test_a_ranking_has_baselines_and_students_are_given_no_hint(world, assignment):
    found = baselines(world, "ed", assignment)
    assert [(each["name"], each["right"]) for each in found] == [("start", False), ("data_parallel", True), ("recipe", True)]
    assert found[2]["detail"] == "Megatron tensor parallel"
    assert all(each["planned"]["step_seconds"] > 0 for each in found)
    assert [each["detail"] + each["reason"] for each in baselines(world, "stu", assignment)] == ["", "", ""]
    world.do("assignments.update", "ed", {"released": True}, assignment=assignment)
    assert baselines(world, "stu", assignment)[2]["detail"] == "Megatron tensor parallel"
    world.do("assignments.update", "ed", {"ranked": ""}, assignment=assignment)
    assert baselines(world, "ed", assignment) == []


def test_a_baseline_that_misses_a_goal_says_which():
    goal = {"goal": "sends", "at_most": "0 B"}
    text = json.loads(exercise_document())
    text["questions"][0]["goals"].append(goal)
    found = find_baselines(json.dumps(text), "split")
    assert [(each["name"], each["right"]) for each in found["found"]] == [("start", False), ("data_parallel", False), ("recipe", False)]
    assert all("are sent per device and step" in each["reason"] for each in found["found"][1:])
    assert found["pins"] == {"data": "4", "stage": "1", "remat": "none"}
    with pytest.raises(WorkbenchError, match="does not ask for a plan"):
        find_baselines(json.dumps(text), "devices")


def test_what_a_search_finds_is_a_baseline_when_its_job_has_ended(world, assignment):
    job = world.do("assignments.search", "rosa", assignment=assignment)["job"]
    assert baselines(world, "ed", assignment)[-1] == {
        "name": "search",
        "detail": "",
        "planned": {},
        "right": False,
        "reason": "",
        "searching": True,
    }
    with world.store.write() as session:
        row = session.get_one(StoredJob, job)
        assert (row.kind, row.author_id) == ("search", world.people["rosa"])
        row.state = "done"
    world.services.jobs.reported[job] = [
        {"seq": 1, "kind": "found", "document": document("batch:data", "data:4 model:1", hardware="TPU v5e 2x2")}
    ]
    SearchedBaselines(world.services).hear(job, (), "done")
    row = within(lambda: (found := baselines(world, "ed", assignment)[-1]) and found["planned"] and found)
    assert (row["right"], row["searching"]) == (True, False), "an axis of one device more is no other mesh"


def test_how_a_plan_came_there_is_shown_to_students_after_the_deadline(world, assignment):
    world.do("work.start", "stu", {}, assignment=assignment)
    answer(world, "stu", assignment)
    path = {"assignment": assignment, "place": "1"}
    assert world.do("assignments.replay", "ed", **path)["elsewhere"], "it was handed in, so its edits are unknown"
    with pytest.raises(ForbiddenError, match="once the deadline has passed"):
        world.do("assignments.replay", "stu", **path)
    world.do("assignments.update", "ed", {"released": True}, assignment=assignment)
    assert world.do("assignments.replay", "stu", **path)["planned"]["step_seconds"] > 0
    with pytest.raises(ForbiddenError, match="replay of the winner"):
        world.do("assignments.replay", "stu", assignment=assignment, place="2")
    with pytest.raises(MissingError):
        world.do("assignments.replay", "ed", assignment=assignment, place="2")


def test_a_plan_is_sent_to_those_who_have_not_answered(world, assignment, tim):
    rooms = {who: world.do("work.start", who, {}, assignment=assignment)["room"] for who in ("stu", tim, "rosa")}
    answer(world, "stu", assignment)
    answer(world, tim, assignment, given=WRONG)
    found = world.do("work.push", "ed", {}, assignment=assignment)
    assert (set(found["rooms"]), found["sent"], found["plan"]) == ({rooms[tim], rooms["rosa"]}, 2, "the start plan")
    sent = world.services.rooms.pushed
    assert {room for room, _ in sent} == {rooms[tim], rooms["rosa"]}
    assert (sent[0][1].sender.name, sent[0][1].card["layout"]) == ("ed", "")
    assert sent[0][1].digest == world.do("assignments.get", "ed", assignment=assignment)["first"]
    again = world.do("work.push", "ed", {"work": rooms["rosa"], "question": "split"}, assignment=assignment)
    assert again["rooms"] == [rooms[tim]], "whose plan it is keeps it"
    with pytest.raises(MissingError):
        world.do("work.push", "ed", {"work": world.things["vision"]["work"]}, assignment=assignment)
    with pytest.raises(InputError, match="no question about a plan"):
        world.do("work.push", "ed", {"question": "devices"}, assignment=assignment)


def test_what_is_withdrawn_is_nobodys_any_more(world, assignment):
    world.do("assignments.withdraw", "ada", assignment=assignment)
    with pytest.raises(MissingError):
        world.do("assignments.get", "stu", assignment=assignment)
    assert assignment not in [each["id"] for each in world.do("assignments.list", "stu", project="vision")["items"]]


@pytest.mark.parametrize("text", ["", "{}", "[1", '{"format": "sharding-workbench.plan"}'])
def test_what_is_no_exercise_is_not_handed_out(world, text):
    with pytest.raises(Exception, match=r"exercise|body"):
        world.do("assignments.create", "ed", {"exercise": text}, project="vision")
