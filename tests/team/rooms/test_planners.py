"""The processes that plan: documents are described or refused in words, what is slow is stopped and felt by no other, and who asks the
partitioner is replaced."""

import asyncio
import json
import signal
import threading
from types import SimpleNamespace

import pytest

from tests.support.room_sessions import first_plan
from tests.support.team_rooms import VisitedRoom, is_there, send_signal, within
from workbench.app.processes.healing_child import ForkServer
from workbench.documents import parse_plan
from workbench.errors import WorkbenchError
from workbench.team.rooms.planners import DocumentDescribers
from workbench.team.store.store import digest_of

pytestmark = [pytest.mark.compile, pytest.mark.worker]


OF_ANOTHER_PROGRAM = json.dumps(
    {
        "format": "sharding-workbench.plan",
        "version": 1,
        "name": "x",
        "mesh": [],
        "layout": {"rules": {}},
        "program": {"target": "os:system", "arguments": {"command": "true"}},
    }
)


def describe(planners, text):
    return asyncio.run(planners.describe_document(text, None))


def test_a_document_is_described(planners, document):
    found = describe(planners, document)
    assert found.digest == digest_of(found.document)
    assert parse_plan(found.document) == first_plan()
    assert set(found.figures) == {"planned"}
    assert found.thumbnail.startswith("<svg")


@pytest.mark.nightly
def test_a_document_is_described_with_the_figures_of_the_partitioner(settling_planners, document):
    within(lambda: "partitioned" in describe(settling_planners, document).figures)  # whoever asks it may still be at its start


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "The document is not JSON"),
        ("{" * 100_000, "The document"),
        ("[1, 2", "The document"),
        ("\x00\ud800", "The document"),
        ('{"format": "sharding-workbench.plan", "version": 1e999}', "The document"),
        ("x" * (3 << 20), "The document"),
        (OF_ANOTHER_PROGRAM, "os"),
    ],
    ids=["empty", "deep", "half", "no text", "infinite", "huge", "another program"],
)
def test_what_is_no_document_is_refused_in_words_and_ends_nothing(planners, document, text, words):
    with pytest.raises(WorkbenchError) as caught:
        describe(planners, text)
    assert words in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert describe(planners, document).target == "two_layer"


def test_a_model_that_nobody_can_build_in_time_is_refused(planners, document):
    huge = document.replace('"batch": 16', '"batch": 99999999999999999999')
    assert huge != document
    with pytest.raises(WorkbenchError):
        describe(planners, huge)


def waiting(planners):
    return [each for each in planners._describers._idle if not each.is_closed]


def test_a_document_that_takes_too_long_is_stopped_and_the_next_has_a_process_of_its_own(planners, document, monkeypatch):
    describe(planners, document)
    stopped = [each.pid for each in waiting(planners)]
    for pid in stopped:
        send_signal(pid, signal.SIGSTOP)
    monkeypatch.setattr("workbench.team.rooms.planners.MOST_SECONDS", 0.3)
    with pytest.raises(WorkbenchError, match=r"Reading this document took longer than 0\.3 s and was stopped"):
        describe(planners, document)
    monkeypatch.undo()
    within(lambda: [is_there(pid) for pid in stopped].count(False) == 1)
    for each in waiting(planners):
        send_signal(each.pid, signal.SIGCONT)
    assert describe(planners, document).target == "two_layer"


def test_a_document_that_breaks_its_process_is_an_error_and_the_next_is_read(planners, document):
    describe(planners, document)
    stopped = waiting(planners)
    for each in stopped:
        send_signal(each.pid, signal.SIGSTOP)
    asked = threading.Thread(target=lambda: caught.append(error_of(lambda: describe(planners, document))))
    caught = []
    asked.start()
    within(lambda: planners._describers._at_work)
    for each in stopped:
        send_signal(each.pid, signal.SIGKILL)
    asked.join()
    assert str(caught[0]).startswith("The process that reads plan documents was killed (SIGKILL).")
    assert describe(planners, document).target == "two_layer"


def error_of(work):
    try:
        work()
    except WorkbenchError as error:
        return error
    return None


def test_several_documents_at_once_are_all_described(planners, document):
    async def all_at_once():
        return await asyncio.gather(*(planners.describe_document(document, None) for _ in range(5)))

    assert {each.digest for each in asyncio.run(all_at_once())} == {digest_of(document)}


def test_a_server_that_closes_does_not_wait_for_a_document(planners, document):
    describers = DocumentDescribers(planners.connect)
    asked = threading.Thread(target=lambda: error_of(lambda: asyncio.run(describers.ask({"describe": {"document": document}}))))
    asked.start()
    within(lambda: describers._at_work)
    [describing] = describers._at_work
    within(lambda: describing.pid)
    send_signal(describing.pid, signal.SIGSTOP)
    describers.close()
    asked.join()
    within(lambda: not is_there(describing.pid))


def test_a_program_of_their_own_cannot_run_where_there_is_no_sandbox(planners):
    with pytest.raises(WorkbenchError, match="The program `mine` cannot run: this server runs only models of the zoo"):
        planners.connect(SimpleNamespace(name="mine", target="mine:build"))


def is_settled(page):
    return page.board.get("board", {}).get("standing", {}).get("mark", {}).get("key") == "partitioned"


@pytest.mark.nightly
def test_figures_of_rooms_settle_through_one_process_which_is_replaced_if_it_ends(settling_planners, room, team, hub, document):
    ada = room.enter("ada")
    ada.until(is_settled)
    broker = settling_planners._broker.pid
    send_signal(broker, signal.SIGKILL)
    within(lambda: not is_there(broker))
    ada.place("hidden", "data")
    ada.until(is_settled)
    other = VisitedRoom(team, hub, team.new_room(document))
    bob = other.enter("bob")
    bob.place("io", "model")
    bob.until(is_settled)
    assert settling_planners._broker.pid != broker


def test_where_no_process_can_be_started_rooms_and_documents_say_so(room, planners, document, monkeypatch):
    for each in waiting(planners):
        each.is_closed = True
    closed = ForkServer()
    closed.close()
    monkeypatch.setattr(planners, "_forking", closed)
    assert not planners.is_ready()
    ada = room.enter("ada")
    assert ada.failures[0].startswith("The process that starts boards ended: the server is closing.")
    with pytest.raises(WorkbenchError, match="The process that starts boards ended"):
        describe(planners, document)


def test_a_server_that_has_closed_reads_no_document(planners, document):
    describers = DocumentDescribers(planners.connect)
    describers.close()
    with pytest.raises(WorkbenchError, match="The server is closing"):
        asyncio.run(describers.ask({"describe": {"document": document}}))
