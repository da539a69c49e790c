"""What boards of one session show alike is made once; what is one's own stays one's own, and every page has what its board says."""

import json
from collections import OrderedDict

import numpy as np
import pytest

from workbench.app.page.part_changes import SentParts, with_change
from workbench.core.tensor import Role
from workbench.models import build
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board import open_tab_part
from workbench.widgets.board.board import Board
from workbench.widgets.shared_states import MOST_NAMES, MOST_SUBJECTS, SharedList, SharedStates, json_text, json_value, shared_states
from workbench.widgets.tabs.board_tabs import SECTIONS


class Page:
    """A board, and what its page makes of what it is sent; each state is what the board published."""

    def __init__(self, session):
        self.sent, self.parts, self.begins = SentParts(), {}, True
        self.board, self.seq, self.begins = Board(session, self.publish), 0, False

    def publish(self, part, state):
        messages = {part: self.sent.begin(part, state)} if self.begins else self.sent.next(part, state)
        for name, text in messages.items():
            content = json.loads(text)
            if name == "changes":
                assert content["of"] == self.parts[part]["edition"]
                content = with_change(self.parts[part], content["by"])
            self.parts[part] = content
        assert {**self.parts[part], "edition": 0} == {**json.loads(json.dumps(state)), "edition": 0}

    def do(self, **gesture):
        self.seq += 1
        self.board.answer({**gesture, "view": "a", "seq": self.seq})


@pytest.fixture
def session():
    return Session(Plan(build("two_layer", batch=16, io=8, hidden=16), "data:4 model:2", "batch:data"))


def drop(target, dim="hidden"):
    return {"verb": "drop", "dim": dim, "source": "" if target else "model", "target": target, "add": False}


def test_boards_of_one_session_share_what_is_alike_and_no_more(session):
    one, other = Page(session), Page(session)
    one.do(**drop("model"))
    assert one.board.state()["zones"] is other.board.state()["zones"]
    other.do(verb="open", tab="memory", search="")
    other.do(verb="select", path="w")
    assert (one.board.state()["selected"], other.board.state()["selected"]) == ("", "w")
    assert [each["key"] for each in other.board.state()["tabs"] if each["open"]] == ["memory"]
    assert one.board.state()["hardware"] is not other.board.state()["hardware"]
    one.do(**drop(""))
    one.do(verb="undo")
    other.do(verb="open", tab="overview", search="")
    other.do(verb="select", path="w")
    assert one.parts["table"]["blocks"] == other.parts["table"]["blocks"]
    assert one.parts["board"]["zones"] == other.parts["board"]["zones"]


def test_a_tab_is_made_once_for_all_who_have_it_open(session, monkeypatch):
    tabs, make = [], open_tab_part.table_state
    monkeypatch.setattr(open_tab_part, "table_state", lambda facts, tab, search: tabs.append(tab) or make(facts, tab, search))
    pages = [Page(session) for _ in range(3)]
    pages[0].do(**drop("model"))
    assert tabs == ["overview", "overview"]  # of the first plan, and of the second
    for page in pages:
        page.do(verb="open", tab="notes", search="")
        page.do(verb="open", tab="resharding", search="")
    assert tabs[2:] == ["notes", "resharding", "resharding", "resharding"]


@pytest.mark.parametrize("tab", [section.key for section in SECTIONS if section.is_shared])
def test_a_shared_tab_is_what_a_board_alone_shows(session, tab):
    first, second, alone = Page(session), Page(session), Page(Session(session.plan))
    for page in (first, second, alone):
        page.do(verb="open", tab=tab, search="")
        page.do(**drop("model")) if page is not second else None
    assert {**second.parts["table"], "seq": 0, "edition": 0} == {**alone.parts["table"], "seq": 0, "edition": 0}


def test_what_is_kept_has_a_limit_and_ends_with_its_session(session):
    shared = SharedStates()
    subjects = [object() for _ in range(MOST_SUBJECTS + 1)]
    for subject in subjects:
        shared.get(subject, "a", lambda subject=subject: [subject])
    assert shared.get(subjects[-1], "a", list) == [subjects[-1]]
    assert shared.get(subjects[0], "a", lambda: "made anew") == "made anew"
    for name in range(MOST_NAMES + 1):
        shared.get(subjects[0], name, lambda name=name: name)
    assert shared.get(subjects[0], 0, lambda: "made anew") == "made anew"
    assert shared_states(session) is shared_states(session)
    assert shared_states(Session(session.plan)) is not shared_states(session)


def test_the_text_of_a_shared_list_is_made_once_and_is_that_of_a_list():
    values = [{"a": "é"}, None]
    shared = SharedList(values)
    assert json_text(shared) is json_text(shared)
    assert json_text({"b": shared}) == json_text({"b": values})


@pytest.mark.parametrize(
    "value",
    [
        {"a": (1, 2.5, None, True), "é": "\u2028</script>", "n": 2**70, "small": 1e-7, "large": 1e300, "z": -0.0},
        [np.float64(0.1), Role.PARAMETER, OrderedDict(a=1), SharedList([1, [2]]), type("Word", (str,), {})("word")],
    ],
    ids=["plain", "subclasses"],
)
def test_a_text_is_read_by_json_as_json_would_have_written_it(value):
    text = json_text(value)
    assert json.loads(text) == json_value(text) == json.loads(json.dumps(value))


def test_a_lone_surrogate_that_a_page_sent_ends_nothing():
    assert json_text({"verb": "\ud83d", "n": 1}) == '{"verb":"?","n":1}'
    sent = []
    board = Board(Session(Plan(build("two_layer"), "data:2", "batch:data")), lambda _part, state: sent.append(json_text(state)))
    board.answer({"verb": "\ud83d", "seq": 1, "saw": 0})
    assert sent


def test_what_is_no_json_is_refused():
    with pytest.raises(TypeError, match="cannot be sent to a page"):
        json_text({"a": object()})
