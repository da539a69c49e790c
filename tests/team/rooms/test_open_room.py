"""Rooms with real processes and pages that remember: one order, stored before it is shown, and whoever dies is replaced."""

import asyncio
import signal
import threading
from pathlib import Path

import pytest

from tests.support.room_sessions import first_plan
from tests.support.team_rooms import FailingStore, RoomTeam, VisitedRoom, is_there, send_signal, within
from workbench.documents import dump_plan, parse_plan
from workbench.errors import WorkbenchError
from workbench.team.access import MissingError, ProjectRole
from workbench.team.planning.room_edit_log import RoomLogRecord, replay
from workbench.team.rooms import room_hub, room_supervisor
from workbench.team.rooms.room_hub import RoomHub
from workbench.team.store.store import digest_of, now
from workbench.team.store.tables import LogEntry, StoredRoom

pytestmark = [pytest.mark.compile, pytest.mark.worker]

START = "batch:data"
HIDDEN = "batch:data; hidden:model"


def history_of(room):
    """The history that the stored log gives."""
    records = [RoomLogRecord(each.kind, each.author_id, each.body) for each in room.team.log_of(room.room_id)]
    return replay(first_plan(), records)


def heads_of(room):
    """The plan that was present after each entry of the log, and before the first."""
    return [0, *(each.body["head"] for each in room.team.log_of(room.room_id))]


def is_part_of(layouts, order):
    """Whether they occur in this order."""
    left = iter(order)
    return all(layout in left for layout in layouts)


def test_what_one_does_all_see_in_one_order(room):
    ada, bob = room.enter("ada"), room.enter("bob")
    late = room.enter("rosa")
    for number in range(4):
        mover, axis, source = (ada, "model", "") if number % 2 == 0 else (bob, "", "model")
        mover.place("hidden", axis, source)
    assert bob.do("drop", dim="batch", source="data", target="", add=False)["answer"]["seq"] == bob.answered
    for page in (ada, bob, late):
        page.until(lambda page: len(page.layouts) == 6)
        assert page.layouts == [START, HIDDEN, START, HIDDEN, START, "everything replicated"]
        assert page.missed == 0
    ada.until(lambda page: sorted(each["moved"] for each in page.room["people"]) == ["", "", "batch"])  # the last move, in bob's colour
    history = history_of(room)
    assert [str(each.edit) for each in history.nodes[1:]] == ["hidden → model", "hidden → whole"] * 2 + ["batch → whole"]
    assert list(history.authors[1:]) == [room.team.people[name] for name in ("ada", "bob", "ada", "bob", "bob")]
    assert [each.seq for each in room.team.log_of(room.room_id)] == [1, 2, 3, 4, 5]


def test_many_hands_at_once_are_put_into_one_order_that_the_log_has(room):
    """Nobody waits for anybody: all see the same plans, and the log replays to the last of them."""
    pages = [room.enter(name) for name in ("ada", "bob", "rosa")]
    moves = [("hidden", "model", ""), ("hidden", "", "model"), ("io", "model", ""), ("io", "", "model"), ("batch", "", "data")]

    def work(page, first):
        for step in range(5):
            dim, axis, source = moves[(first + step) % len(moves)]
            page.place(dim, axis, source)
        page.do("undo")

    threads = [threading.Thread(target=work, args=(page, number)) for number, page in enumerate(pages)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    history = history_of(room)
    last = str(history.nodes[history.head].plan.layout) or "everything replicated"
    for page in pages:
        page.until(lambda page: page.layout == last and page.room.get("head") == history.head)
        assert page.missed == 0
    order = [str(history.nodes[head].plan.layout) or "everything replicated" for head in heads_of(room)]
    assert all(is_part_of(page.layouts, order) for page in pages), "plans in the one order; who is busy may skip some of the others'"
    log = room.team.log_of(room.room_id)
    assert [each.seq for each in log] == list(range(1, len(log) + 1))
    assert [each.kind for each in log].count("undo") == sum(1 for page in pages if page.board["board"]["redo"])


def test_an_edit_is_in_the_store_before_anybody_sees_it(room):
    ada, bob = room.enter("ada"), room.enter("bob")
    stored = []
    for page in (ada, bob):
        page.shown = lambda page: stored.append((len(page.layouts) - 1, room.team.count_of(room.room_id)))
    ada.place("hidden", "model")
    ada.do("undo")
    bob.until(lambda page: page.layouts == [START, HIDDEN, START])
    assert {edits for edits, _ in stored} == {0, 1, 2}
    assert all(edits <= entries for edits, entries in stored), "of every plan that is shown, the edits are stored"


def test_each_takes_back_their_own(room):
    ada, bob = room.enter("ada"), room.enter("bob")
    ada.place("hidden", "model")
    bob.until(lambda page: page.layout == HIDDEN)
    assert (bob.board["board"]["undo"], bob.board["board"]["redo"]) == (None, None)
    state = bob.place("batch", "", "data")
    assert state["undo"] == "Undo batch → whole"
    ada.until(lambda page: page.layout == "hidden:model")
    assert ada.board["board"]["undo"] == "Undo hidden → model", "her own, not the last one"
    state = ada.do("undo")
    assert state["layout"] == "everything replicated"
    assert (state["undo"], state["redo"]) == (None, "Redo hidden → model")
    bob.until(lambda page: page.layout == "everything replicated")
    bob.do("undo")
    ada.until(lambda page: page.layout == START)
    ada.do("redo")
    bob.until(lambda page: page.layout == HIDDEN)


def test_who_comes_later_sees_the_present_plan_and_who_left_nothing_more(room):
    ada = room.enter("ada")
    ada.place("hidden", "model")
    bob = room.enter("bob")
    assert bob.layouts == [HIDDEN]
    room.leave("ada")
    bob.place("hidden", "", "model")
    assert ada.layouts == [START, HIDDEN]
    bob.until(lambda page: not page.person("Ada"))
    assert room.hub.people_in(room.room_id) == [room.team.people["bob"]]


def test_an_edit_of_somebody_who_leaves_at_once_is_made_and_ends_nothing(room):
    ada, bob = room.enter("ada"), room.enter("bob")
    pid = room.pid
    send_signal(pid, signal.SIGSTOP)  # it hears nothing yet, as one in a long computation
    bob.send("drop", dim="hidden", source="", target="model", add=False)
    room.leave("bob")
    send_signal(pid, signal.SIGCONT)
    ada.until(lambda page: page.layout == HIDDEN)
    ada.place("batch", "", "data")
    assert room.pid == pid
    assert [each.author_id for each in room.team.log_of(room.room_id)] == [room.team.people["bob"], room.team.people["ada"]]


def test_an_edit_that_cannot_be_stored_nobody_sees_and_all_are_told(tmp_path, planners, document):
    team = RoomTeam.begin(tmp_path, kind=FailingStore)
    hub = RoomHub(team.store, planners, "http://localhost:5007")
    room = VisitedRoom(team, hub, team.new_room(document))
    ada, bob = room.enter("ada"), room.enter("bob")
    ada.place("hidden", "model")
    bob.until(lambda page: page.layout == HIDDEN)
    pid = room.pid
    team.store.full = True
    bob.send("drop", dim="batch", source="data", target="", add=False)
    for page in (ada, bob):
        page.until(lambda page: page.boards == 2)
        assert page.layouts == [START, HIDDEN], "nobody saw it"
        page.until(lambda page: page.notices)
        assert page.notices[-1] == {
            "title": "The room was restarted",
            "text": "The last edit could not be stored, so it was not applied. Everything before it is here. "
            "The disk of the server is full, so nothing was changed.",
            "choices": [["dismiss", "All right"]],
        }
    within(lambda: not is_there(pid))
    team.store.full = False
    bob.place("hidden", "", "model")
    ada.until(lambda page: page.layout == START)
    assert [each.seq for each in team.log_of(room.room_id)] == [1, 2]
    hub.close()
    team.store.close()


def test_a_plan_that_cannot_be_saved_is_said_and_the_room_goes_on(tmp_path, planners, document):
    team = RoomTeam.begin(tmp_path, kind=FailingStore)
    hub = RoomHub(team.store, planners, "http://localhost:5007")
    room = VisitedRoom(team, hub, team.new_room(document))
    ada = room.enter("ada")
    team.store.full = True
    save, branch = (lambda: ada.do("save", name="mine")), (lambda: ada.ask("branch"))
    for act, title in ((save, "This plan was not added to the gallery"), (branch, "No branch was made")):
        act()
        ada.until(lambda page, title=title: page.notices and page.notices[-1]["title"] == title)
        assert ada.notices[-1]["text"].startswith("The disk of the server is full, so nothing was changed.")
        assert "Traceback" not in ada.notices[-1]["text"]
    team.store.full = False
    ada.place("hidden", "model")
    assert ada.boards == 1
    hub.close()
    team.store.close()


def test_a_process_that_is_killed_is_replaced_and_nothing_acknowledged_is_lost(room):
    ada, bob = room.enter("ada"), room.enter("bob")
    ada.place("hidden", "model")
    bob.place("batch", "", "data")
    pid = room.pid
    ada.send("drop", dim="hidden", source="model", target="", add=False)  # in mid-edit: it may have been made, or not
    room.kill()
    for page in (ada, bob):
        page.until(lambda page: page.boards == 2 and page.notices)
        assert page.notices[-1]["text"] == (
            "The process of this room was killed (SIGKILL), so the last edit may be lost. Everything before it is here."
        )
    assert room.pid not in (0, pid)
    history = history_of(room)
    assert len(history.nodes) in (3, 4)
    for page in (ada, bob):
        page.until(lambda page: page.layout == (str(history.nodes[history.head].plan.layout) or "everything replicated"))
    assert ada.do("undo")["redo"] is not None, "what one did oneself is known"
    assert bob.person("Ada"), "everybody is back"


@pytest.mark.parametrize(("number", "word"), [(signal.SIGSEGV, "SIGSEGV"), (signal.SIGABRT, "SIGABRT")])
def test_how_a_process_ended_is_said(room, number, word):
    ada = room.enter("ada")
    room.kill(number)
    ada.until(lambda page: page.notices)
    assert ada.notices[-1]["text"].startswith(f"The process of this room ended by {word}, so ")


def test_a_process_that_dies_as_it_opens_is_started_once_more(room):
    ada = room.enter_at_once("ada")
    within(lambda: children_of(room.hub))
    for pid in children_of(room.hub):
        send_signal(pid, signal.SIGKILL)
    ada.until(lambda page: "live" in page.board)
    assert ada.failures == []


def children_of(hub):
    """The processes of all rooms and documents."""
    parent = hub._planners._forking.pid
    return [int(each) for each in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def test_a_room_whose_process_dies_again_and_again_is_left_with_a_word_and_opens_anew(room):
    ada = room.enter("ada")
    ada.place("hidden", "model")
    for death in range(3):
        ada.until(lambda page, death=death: page.boards == death + 1)
        room.kill(signal.SIGABRT)
    ada.until(lambda page: page.failures)
    assert ada.failures[-1].endswith("; this happened 3 times within 60 s. Reload the page to try again.")
    assert "SIGABRT" in ada.failures[-1]
    assert ada.board == {}
    again = room.enter("ada", "again")
    assert again.layout == HIDDEN


def test_what_a_room_is_at_can_be_stopped_by_an_editor_and_not_by_a_viewer(room):
    bob, vic = room.enter("bob"), room.enter("vic")
    pid = room.pid
    send_signal(pid, signal.SIGSTOP)
    bob.send("undo")
    vic.ask("stop")
    vic.until(lambda page: page.notices)
    assert vic.notices[-1]["text"].startswith("To stop the current task of a room takes an editor of the project, and you are a viewer.")
    assert is_there(pid)
    bob.ask("stop")
    bob.until(lambda page: page.boards == 2 and page.notices)
    assert bob.notices[-1]["text"].startswith("A person stopped its current task, so the last edit may be lost.")
    within(lambda: not is_there(pid))


def test_what_somebody_stops_is_no_death_of_the_room(room):
    bob = room.enter("bob")
    for turn in range(4):
        bob.until(lambda page, turn=turn: page.boards == turn + 1)
        within(lambda: room.pid)
        bob.ask("stop")
    bob.until(lambda page: page.boards == 5)
    assert bob.failures == []


def test_a_room_that_is_at_one_thing_for_too_long_says_so_and_is_stopped(room, monkeypatch):
    monkeypatch.setattr(room_supervisor, "PATIENCE", 0.0)
    ada = room.enter("ada")
    pid = room.pid
    send_signal(pid, signal.SIGSTOP)
    ada.send("undo")
    ada.until(lambda page: page.busy and page.busy[-1] > 0)
    monkeypatch.setattr(room_supervisor, "LIMIT", 0.5)
    within(lambda: not is_there(pid))
    monkeypatch.undo()
    ada.until(lambda page: page.notices and page.boards >= 2)
    assert ada.notices[0]["text"].startswith("Its current task took longer than")


def test_a_room_that_takes_too_long_to_open_says_so(room, monkeypatch):
    monkeypatch.setattr(room_supervisor, "OPENING", 0.0)
    ada = room.enter("ada")
    assert ada.failures == ["Opening this room took longer than 0 s and was stopped. Reload the page to try again."]
    monkeypatch.undo()
    assert room.enter("ada", "again").layout == START


def test_who_may_only_look_edits_nothing_and_is_told_why(room):
    ada, vic = room.enter("ada"), room.enter("vic")
    vic.place("hidden", "model")
    assert vic.refusal == "To edit this plan takes the role editor in this project; yours is viewer."
    for verb, fields in (("undo", {}), ("go", {"number": 0}), ("name_plan", {"number": 0, "name": "mine"}), ("pin", {"number": 0})):
        vic.do(verb, **fields)
        assert "takes the role editor" in vic.refusal, verb
    for verb, fields in (("run", {"steps": "2"}), ("calibrate", {}), ("compile", {})):
        vic.do(verb, **fields)
    assert room.team.log_of(room.room_id) == []
    assert ada.layouts == [START]
    vic.do("open", tab="memory")
    ada.until(lambda page: page.person("Vic").get("tab") == "memory")


def test_a_viewer_saves_nothing(room):
    vic = room.enter("vic")
    vic.do("save", name="mine")
    assert "add a plan to the gallery" in vic.refusal
    vic.do("open", tab="memory")
    assert vic.notices == []


def test_a_demotion_works_at_once_and_a_promotion_too(room):
    bob = room.enter("bob")
    bob.place("hidden", "model")
    room.team.set_role("bob", ProjectRole.VIEWER)
    asyncio.run(room.hub.changed([room.room_id]))
    bob.place("hidden", "", "model")
    assert "yours is viewer" in bob.refusal
    bob.until(lambda page: page.person("Bob")["role"] == "viewer" and not page.room["edits"])
    room.team.set_role("bob", ProjectRole.EDITOR)
    asyncio.run(room.hub.changed([room.room_id]))
    bob.place("hidden", "", "model")
    assert bob.layout == START


def test_a_role_that_is_taken_away_closes_the_page_and_nothing_of_it_is_heard(room):
    ada, bob = room.enter("ada"), room.enter("bob")
    room.team.set_role("bob", None)
    asyncio.run(room.hub.changed([room.room_id]))
    assert bob.failures == ["You no longer have access to this room: your role was removed, or the room was closed."]
    assert bob.board == {}
    bob.send("drop", dim="hidden", source="", target="model", add=False)
    bob.ask("stop")
    ada.place("batch", "", "data")
    ada.until(lambda page: not page.person("Bob"))
    assert bob.layouts == [START]
    assert bob.board == {}
    with pytest.raises(MissingError):
        room.hub.enter(room.room_id, room.team.principal("bob"), bob)


def test_roles_are_asked_again_by_and_by_for_nobody_announces_the_end_of_a_link(room, monkeypatch):
    monkeypatch.setattr(room_hub, "ROLES_LOOK", 1)
    bob = room.enter("bob")
    room.team.set_role("bob", None)
    bob.until(lambda page: page.failures)


def test_a_stranger_and_nobody_enter_no_room(room):
    for room_id in (room.room_id, "nothinglikethis1"):
        with pytest.raises(MissingError, match=f"There is no room `{room_id}`, or you may not see it"):
            room.hub.enter(room_id, room.team.principal("zoe"), None)
    assert room.hub.count() == 0


def test_both_are_told_where_one_changes_what_the_other_just_did(room):
    ada, bob = room.enter("ada"), room.enter("bob")
    saw = bob.board["board"]["revision"]
    ada.place("hidden", "model")
    bob.until(lambda page: page.layout == HIDDEN)
    bob.place("hidden", "", "model", saw=saw)
    ada.until(lambda page: page.notices)
    title = "Both of you changed dimension hidden"
    assert bob.notices == [
        {
            "title": title,
            "text": "Ada had made the edit `hidden → model` a moment before; yours, `hidden → whole`, holds.",
            "choices": [["dismiss", "All right"]],
        }
    ]
    assert ada.notices == [
        {
            "title": title,
            "text": "Bob made the edit `hidden → whole` without having seen yours, `hidden → model`. The later one holds.",
            "choices": [["dismiss", "All right"]],
        }
    ]
    bob.place("batch", "", "data", saw=saw)
    ada.until(lambda page: page.layout == "everything replicated")
    assert len(ada.notices) == len(bob.notices) == 1, "edits of different statements both hold"


def test_a_refusal_says_what_was_not_seen(room):
    ada, bob = room.enter("ada"), room.enter("bob")
    saw = bob.board["board"]["revision"]
    ada.place("hidden", "model")
    bob.until(lambda page: page.layout == HIDDEN)
    bob.place("io", "model", saw=saw)
    assert "Ada made the edit `hidden → model`" in bob.refusal
    assert bob.refusal.endswith("before you saw it.")


def test_a_branch_is_a_copy_of_the_log_that_goes_its_own_way(room):
    ada = room.enter("ada")
    ada.place("hidden", "model")
    ada.do("name_plan", number=1, name="good")
    ada.ask("branch")
    ada.until(lambda page: page.notices)
    [notice] = ada.notices
    assert notice["title"] == "Your own room"
    place = notice["choices"][0]
    assert place[:2] == ["open", "Go there"]
    branch = VisitedRoom(room.team, room.hub, place[2].rpartition("/")[2])
    there = branch.enter("ada")
    assert there.layout == HIDDEN
    same = [
        [(each.seq, each.kind, each.body, each.author_id) for each in room.team.log_of(each)] for each in (room.room_id, branch.room_id)
    ]
    assert same[0] == same[1]
    there.do("undo")
    ada.place("batch", "", "data")
    assert (there.layout, ada.layout) == (START, "hidden:model")
    assert room.team.count_of(room.room_id) == room.team.count_of(branch.room_id) == 3
    assert there.room["name"] == "Ada's branch of Tuesday"


def test_a_viewer_has_no_branch(room):
    vic = room.enter("vic")
    vic.ask("branch")
    vic.until(lambda page: page.notices)
    assert vic.notices[-1]["text"].startswith("To branch off takes an editor of the project, and you are a viewer.")


def test_a_room_that_is_closed_is_closed_for_all_and_opens_no_more(room):
    ada, bob = room.enter("ada"), room.enter("bob")
    pid = room.pid
    with room.team.store.write() as session:
        session.get_one(StoredRoom, room.room_id).closed = now()
    asyncio.run(room.hub.changed([room.room_id]))
    for page in (ada, bob):
        assert "the room was closed" in page.failures[-1]
    with pytest.raises(MissingError):
        room.hub.enter(room.room_id, room.team.principal("ada"), ada)
    room.open_room.left_at = -1e9
    within(lambda: not is_there(pid))


def test_a_room_without_people_is_ended_and_comes_back_from_its_log(team, planners, document):
    hub = RoomHub(team.store, planners, "http://localhost:5007", idle_for=0.0)
    room = VisitedRoom(team, hub, team.new_room(document))
    ada = room.enter("ada")
    ada.place("hidden", "model")
    pid = room.pid
    room.leave("ada")
    within(lambda: hub.count() == 0 and not is_there(pid))
    again = room.enter("ada", "again")
    assert again.layout == HIDDEN
    assert again.board["board"]["undo"] == "Undo hidden → model", "one's own edits are known after a restart"
    hub.close()


def test_a_log_that_cannot_be_replayed_is_a_sentence_on_the_page(room):
    with room.team.store.write() as session:
        own = {"room_id": room.room_id, "author_id": room.team.people["ada"], "digest": "", "created": now()}
        edit = {"edit": "shard_dim", "dim": "hidden", "axes": ["pipe"]}
        body = {"added": [{"parent": 0, "edit": edit, "author": room.team.people["ada"]}], "head": 1}
        session.add(LogEntry(seq=1, kind="edit", body=body, **own))
    ada = room.enter("ada")
    assert len(ada.failures) == 1
    assert ada.failures[0].startswith("Entry 1 of the room's log cannot be replayed: There is no mesh axis `pipe`")
    assert "Traceback" not in ada.failures[0]
    within(lambda: not children_with(room))


def children_with(room):
    return [pid for pid in children_of(room.hub) if room.open_room._connection is not None]


def test_a_server_that_closes_opens_no_room_and_ends_all(room):
    ada = room.enter("ada")
    pid = room.pid
    room.hub.close()
    within(lambda: not is_there(pid))
    assert ada.failures == [], "its page comes back by itself"
    with pytest.raises(WorkbenchError, match="The server is closing"):
        room.enter("bob")


def test_a_first_plan_that_cannot_be_read_is_a_sentence_on_the_page(team, hub):
    room = VisitedRoom(team, hub, team.new_room('{"format": "nothing"}'))
    ada = room.enter("ada")
    assert "The plan of this room" in ada.failures[0]


def test_a_follower_sees_what_the_leader_opens_until_one_of_them_leaves(room):
    ada, bob = room.enter("ada"), room.enter("bob")
    leader = ada.until(lambda page: page.room.get("you"))
    bob.ask("follow", visitor=leader)
    ada.do("open", tab="memory")
    bob.until(lambda page: page.person("Bob").get("tab") == "memory" and page.person("Bob")["following"] == leader)
    ada.do("select", path="w")
    bob.until(lambda page: page.board["board"]["selected"] == "w")
    ada.ask("follow", visitor=bob.room["you"])
    ada.do("select", path="w")
    bob.until(lambda page: page.board["board"]["selected"] == "")
    assert ada.person("Ada")["following"] == 0, "no circle"
    room.leave("ada")
    bob.until(lambda page: not page.person("Ada") and page.person("Bob")["following"] == 0)


def test_undo_and_redo_are_heard_from_the_bar(room):
    bob = room.enter("bob")
    bob.place("hidden", "model")
    bob.ask("undo")
    bob.until(lambda page: page.layout == START)
    bob.ask("redo")
    bob.until(lambda page: page.layout == HIDDEN)


def test_gestures_that_no_page_sends_end_nothing(room):
    """They come from a signed-in person's browser, and so from anybody."""
    ada, bob = room.enter("ada"), room.enter("bob")
    pid = room.pid
    strange = [None, 1, -1, 2.5, "", "x" * 3000, [], {}, ["a"] * 100, {"a": 1}, True]
    for value in strange:
        for name in ("verb", "dim", "source", "target", "add", "view", "seq", "saw", "ahead", "again", "zone", "number", "tab", "path"):
            message = {"verb": "drop", "dim": "hidden", "source": "", "target": "model", "add": False, "view": "z", "seq": 1, name: value}
            bob.hear({"gesture": message})
        bob.hear({"heard": {"kind": value, "visitor": value, "node": value}})
        for kind in ("follow", "go", "open", "save_as", "boards", "theme"):
            bob.hear({"heard": {"kind": kind, "visitor": value, "node": value, "ids": value, "text": value}})
    bob.hear({})
    bob.hear({"gesture": {}})
    ada.do("open", tab="memory")
    assert room.pid == pid
    assert ada.failures == bob.failures == []


def test_the_log_of_a_room_opens_the_plan_that_all_saw(room):
    """The stored digest of each entry is that of the plan that was present after it."""
    ada = room.enter("ada")
    ada.place("hidden", "model")
    ada.do("undo")
    ada.do("redo")
    first = parse_plan(dump_plan(first_plan()))
    records = [RoomLogRecord(each.kind, each.author_id, each.body) for each in room.team.log_of(room.room_id)]
    for count, entry in enumerate(room.team.log_of(room.room_id), 1):
        history = replay(first, records[:count])
        assert entry.digest == digest_of(dump_plan(history.nodes[history.head].plan))
