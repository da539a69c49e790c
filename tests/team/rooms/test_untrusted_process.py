"""A room's process may run somebody's code, and say anything: nothing of it is stored or shown that a room may not, and it is ended."""

import json
import socket
import threading
from contextlib import suppress
from multiprocessing.connection import Connection

import pytest

from tests.support.team_rooms import VisitedRoom, within
from workbench.errors import WorkbenchError
from workbench.team.rooms.room_connection import StartedPlanner
from workbench.team.rooms.room_hub import RoomHub
from workbench.team.rooms.room_notices import verify_shown
from workbench.team.rooms.room_records import MOST_ENTRY, verify_entry
from workbench.team.store.store import now
from workbench.team.store.tables import GalleryEntry, RegisteredProgram, StoredRoom

BOARD = json.dumps({"layout": "theirs", "answer": {"view": "", "seq": 0}, "revision": 0, "refusal": None})
OPENED = [{"ready": 1}, {"opened": None}]


def send(connection, message):
    connection.send_bytes(message if isinstance(message, bytes) else json.dumps(message).encode())


class ScriptedPlanners:
    """Processes that are threads of the test: each says what it was given, as soon as somebody has entered, and then nothing more."""

    def __init__(self):
        self.says = []
        self.ended = 0
        self.started = 0

    def connect(self, _program):
        ours, theirs = socket.socketpair()
        self.started += 1
        threading.Thread(target=self.work, args=(theirs, self.says if self.started == 1 else []), daemon=True).start()

        def end():
            self.ended += 1
            with suppress(OSError):
                theirs.shutdown(socket.SHUT_RDWR)

        return StartedPlanner(Connection(ours.detach()), lambda _pid: "ended", end)

    def work(self, theirs, says):
        with theirs, Connection(theirs.dup().detach()) as connection, suppress(OSError, EOFError):
            for each in OPENED:
                send(connection, each)
            while "enter" not in json.loads(connection.recv_bytes()):
                pass
            send(connection, {"show": "board", "parameters": {"new": True, "board": BOARD, "table": "{}", "live": "{}"}, "visitor": 1})
            for each in says:
                send(connection, each)
            while True:
                connection.recv_bytes()

    def is_ready(self):
        return True

    def look(self):
        """Nothing is counted."""


@pytest.fixture
def planners():
    return ScriptedPlanners()


@pytest.fixture
def room(team, planners, document):
    """A room about a program of the team's own."""
    program = RegisteredProgram(
        id="p1",
        project_id=team.project_id,
        name="mine",
        target="mine:build",
        kind="git",
        locator="x",
        digest="d",
        state="approved",
        problem="",
        by=team.people["ada"],
        created=now(),
        approved_by=team.people["ada"],
        approved=now(),
    )
    room_id = team.new_room(document)
    with team.store.write() as session:
        session.add(program)
        session.flush()
        session.get_one(StoredRoom, room_id).program_id = "p1"
    hub = RoomHub(team.store, planners, "http://localhost:5007")
    yield VisitedRoom(team, hub, room_id)
    hub.close()


def entry(team, **changes):
    """A log entry of Ada's as an honest process sends it, but for these changes."""
    edit = {"edit": "shard_dim", "dim": "hidden", "axes": ["model"]}
    body = {"added": [{"parent": 0, "edit": edit, "author": team.people["ada"]}], "head": 1}
    log = {"seq": 1, "kind": "edit", "author": team.people["ada"], "body": body, **changes}
    return {"log": log, "says": "hidden → model", "digest": "d", "conflicts": []}


def test_an_honest_process_is_believed(room, planners):
    planners.says = [entry(room.team)]
    ada = room.enter("ada")
    within(lambda: room.team.count_of(room.room_id) == 1)
    ada.until(lambda page: page.room.get("said"))
    assert planners.ended == 0


def messages(team):
    bridge = lambda **parameters: {"show": "bridge", "parameters": parameters, "visitor": 1}  # noqa: E731
    return {
        "an entry of somebody who may only look": entry(team, author=team.people["vic"]),
        "an entry of a stranger": entry(team, author=team.people["zoe"]),
        "an entry of nobody": entry(team, author=""),
        "an entry of a list": entry(team, author=[team.people["ada"]]),
        "an entry of no kind": entry(team, kind="burn"),
        "a huge entry": entry(team, body={"head": 0, "added": ["x" * (MOST_ENTRY + 1)]}),
        "an entry without a body": {
            "log": {"seq": 1, "kind": "edit", "author": team.people["ada"]},
            "says": "",
            "digest": "",
            "conflicts": [],
        },
        "no JSON": b"\x80garbage",
        "a text that is like a message": b'"ready"',
        "a number": b"7",
        "deep JSON": b"[" * 100_000,
        "opened twice": {"opened": None},
        "a show of nobody's": {"show": "board"},
        "a parameter that no board has": {"show": "board", "parameters": {"_esm": "alert(1)"}, "visitor": 1},
        "a parameter of another type": {"show": "board", "parameters": {"board": {"layout": 1}}, "visitor": 1},
        "a bridge that leads elsewhere": bridge(board="theirs"),
        "a text that is none": bridge(title=7),
        "a view without a tab": {"view": {}, "visitor": 1},
        "a view that is none": {"view": 7, "visitor": 1},
    }


NAMES = list(messages(type("Team", (), {"people": dict.fromkeys(("ada", "vic", "zoe"), "u")})))


@pytest.mark.compile
@pytest.mark.parametrize("name", NAMES)
def test_a_process_that_says_what_no_process_says_is_ended_and_nothing_of_it_stands(room, planners, name):
    planners.says = [messages(room.team)[name], entry(room.team)]
    ada = room.enter("ada")
    within(lambda: planners.ended == 1 and planners.started == 2)
    ada.until(lambda page: page.boards == 2)
    assert room.team.log_of(room.room_id) == [], "nor what came after it"
    assert "theirs" not in str(ada.bridge)
    assert ada.notices[-1]["title"] == "The room was restarted"
    with room.team.store.read() as session:
        assert session.query(GalleryEntry).count() == 0


def test_what_means_nothing_is_not_heard_and_a_plan_that_is_none_is_not_saved(room, planners):
    planners.says = [[1, 2], "text", {"dance": True}, {"show": "board", "parameters": {}, "visitor": 99}]
    planners.says += [{"save": {}, "name": "x", "visitor": 1}, entry(room.team)]
    ada = room.enter("ada")
    within(lambda: room.team.count_of(room.room_id) == 1)
    assert planners.ended == 0
    assert ada.notices[0]["title"] == "This plan was not added to the gallery"


def test_a_notice_of_such_a_process_leads_nowhere(room, planners):
    notice = {"title": "Look", "text": "here", "choices": [["open", "Go there", "https://evil.example"]]}
    planners.says = [{"show": "bridge", "parameters": {"notice": notice}, "visitor": 1}]
    ada = room.enter("ada")
    ada.until(lambda page: page.notices)
    assert ada.notices == [{"title": "Look", "text": "here", "choices": [["dismiss", "All right"]]}]


def test_rooms_about_a_program_that_is_withdrawn_are_ended(room, planners):
    ada = room.enter("ada")
    room.hub.end_program("another")
    assert ada.failures == []
    room.hub.end_program("p1")
    assert ada.failures == ["The program of this room was withdrawn."]
    assert ada.board == {}


def test_a_room_about_a_program_that_is_not_approved_is_not_opened(room):
    with room.team.store.write() as session:
        session.get_one(RegisteredProgram, "p1").state = "withdrawn"
    with pytest.raises(WorkbenchError, match="The program `mine` of this room may not run: it is withdrawn"):
        room.enter("ada")


def test_what_a_board_shows_is_passed_on_as_it_is():
    shown = {"new": True, "board": "{}", "table": "{}", "live": "{}", "tour": False}
    assert verify_shown("board", shown) == shown
    assert verify_shown("bridge", {"title": "mine", "unsaved": False, "notice": {}}) == {"title": "mine", "unsaved": False, "notice": {}}


def test_an_entry_of_an_editor_is_one():
    verify_entry({"author": "u", "kind": "pin", "body": {"node": 0, "pinned": True}}, {"u"})
    for changes in ({"author": "v"}, {"kind": "dance"}, {"body": "x" * (MOST_ENTRY + 1)}):
        with pytest.raises(WorkbenchError, match="sent an invalid log entry"):
            verify_entry({"author": "u", "kind": "pin", "body": {}, **changes}, {"u"})
