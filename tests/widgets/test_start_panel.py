"""The start panel: what can be chosen, the answer with its rows, the row that opens on the board; and what is refused, in words."""

import json
import queue
import time

import pytest

from workbench.documents import dump_plan
from workbench.models import build
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.board import Board
from workbench.widgets.board.board_host import Host
from workbench.widgets.start.start_panel import MACHINES

LIMIT = 60.0  # seconds


class StartedBoard:
    """A board whose event loop is this test: `send` answers a gesture, `wait` does what threads have handed over until something holds."""

    def __init__(self, **host):
        self.parts, self._owed, self._seq = {}, queue.Queue(), 0
        plan = Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", "batch:data")
        host = Host(**{"starts": True, "start_open": True, **host})
        self.board = Board(Session(plan), self.parts.__setitem__, defer=self._owed.put, host=host)

    def send(self, verb, **fields):
        self._seq += 1
        self.board.answer({"verb": verb, "view": "a", "seq": self._seq, **fields})
        return self.state

    @property
    def state(self):
        return self.parts["board"]

    @property
    def start(self):
        return self.state["start"]

    def wait(self, holds):
        until = time.monotonic() + LIMIT
        while not holds():
            self._owed.get(timeout=max(0.0, until - time.monotonic()))()
        return self.state

    def settled(self):
        return self.wait(lambda: not self.start["open"] or self.start["work"] is None)["start"]


def cells(row):
    return {each["label"]: each["text"] for each in row["cells"]}


@pytest.fixture
def started(monkeypatch):
    monkeypatch.setattr("workbench.widgets.start.start_panel.PLANNED_FOR", 0.0)  # one layout is planned in any case
    board = StartedBoard()
    yield board
    board.board.close()


def test_a_board_that_offers_no_start_has_no_panel_and_refuses_its_gestures():
    board = StartedBoard(starts=False)
    assert board.start is None
    assert board.state["model"] is None
    refusal = board.send("choose_model", model="two_layer")["refusal"]
    assert refusal == {"zone": "start", "message": "This board begins no other plans.", "ways_out": ["open a board of your own"]}


def test_the_panel_lists_the_zoo_the_machines_and_the_lessons_while_it_is_open(started):
    assert [card["title"] for card in started.start["zoo"]][:2] == ["llama3-8b", "llama3-70b"]
    assert len(started.start["zoo"]) > 100
    assert started.start["machines"] == list(MACHINES)
    assert sum(len(course["lessons"]) for course in started.start["lessons"]) == 24
    assert started.send("new_plan", open=False)["start"] == {"open": False}
    assert json.dumps(started.state)  # no tuples of its own kinds


def test_two_choices_answer_and_a_third_opens_a_plan_that_fits(started):
    started.send("choose_model", model="decoder/llama3-8b")
    assert started.start["model"]["title"] == "llama3-8b"
    assert started.start["answer"] is None
    started.send("choose_machines", on="8 H100")
    assert "llama3-8b" in started.start["work"]["phase"]
    answer = started.settled()["answer"]
    assert answer["tone"] == "good"
    assert answer["headline"].startswith("llama3-8b fits on 8 H100: 8 devices take ")
    assert [row["goal"] for row in answer["rows"]] == ["fastest", "fewest devices", "cheapest"]
    assert cells(answer["rows"][0])["devices"] == "8"
    assert cells(answer["rows"][1])["devices"] == "2"
    assert not any("--" in note for note in answer["notes"])
    started.send("open_layout", goal="fastest")
    started.wait(lambda: not started.start["open"])
    session = started.board.session
    assert session.plan.hardware.name == "8 H100"
    assert session.report.peak <= session.plan.hardware.chip.memory
    assert isinstance(session.plan, Plan)
    assert started.state["undo"] == "Undo open llama3-8b, fastest"
    assert all(figure["delta"] is None for figure in started.state["figures"])


def test_what_does_not_fit_says_so_with_the_nearest_that_would(started):
    started.send("choose_model", model="decoder/llama3-70b")
    started.send("choose_machines", on="8 H100")
    answer = started.settled()["answer"]
    assert answer["tone"] == "bad"
    assert answer["headline"].startswith("llama3-70b does not fit on 8 H100; it trains on 16 devices")
    assert [row["goal"] for row in answer["rows"]] == ["fewest devices"]


def test_a_model_without_an_architecture_is_planned_by_recipes(started):
    started.send("choose_machines", on="4 A100")
    started.send("choose_model", model="mnist")
    answer = started.settled()["answer"]
    assert answer["headline"] == "mnist fits on 4 A100-80GB; 1 device is enough."
    started.send("open_layout", goal="fewest devices")
    started.wait(lambda: not started.start["open"])
    assert started.board.session.plan.mesh.size == 1


def test_a_config_is_read_and_a_plan_file_opens(started):
    config = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000, "max_position_embeddings": 512}
    started.send("start_file", name="config.json", text=json.dumps({**config, "_name_or_path": "mine/small-llama"}))
    assert started.start["model"]["title"] == "small-llama"
    started.send("choose_machines", on="H100", batch="8", tokens="128")
    assert started.settled()["answer"]["headline"].startswith("small-llama fits on ")
    plan = Plan(build("two_layer", batch=32, io=64, hidden=32), "data:2", "batch:data")
    started.send("start_file", name="a.plan.json", text=dump_plan(plan))
    assert started.start == {"open": False}
    assert started.board.session.plan.mesh.size == 2


@pytest.mark.parametrize(
    ("verb", "fields", "message"),
    [
        ("choose_model", {"model": "decoder/llama9"}, "There is no preset `llama9`"),
        ("choose_model", {"model": "os:system"}, "There is no function `os:system` to begin with here."),
        ("choose_machines", {"on": "8 H1000"}, "There is no hardware `H1000`"),
        ("choose_machines", {"on": "attached"}, "No devices are attached to this board."),
        ("start_file", {"name": "a.json", "text": "{"}, "`a.json` is not JSON that can be read"),
        ("start_file", {"name": "a.json", "text": None}, "`a.json` is too large."),
        ("start_file", {"name": "a.json", "text": '{"model_type": "unheard"}'}, "`a.json`: There is no `model_type` `unheard`"),
        ("open_layout", {"goal": "fastest"}, "There is no answer yet to open a layout of."),
    ],
)
def test_what_cannot_be_chosen_is_refused_in_the_panel(started, verb, fields, message):
    started.send("choose_model", model="two_layer")
    refusal = started.send(verb, **fields)["refusal"]
    assert refusal["zone"] == "start"
    assert refusal["message"].startswith(message)


def test_an_answer_that_cannot_be_is_said_where_it_is_waited_for(started):
    started.send("choose_model", model="decoder/llama3-8b")
    started.send("choose_machines", on="8 H100", batch="many")
    problem = started.settled()["problem"]
    assert problem["message"].startswith("`batch` is 'many'")
    assert problem["ways_out"]


def test_what_is_waited_for_can_be_stopped_and_its_answer_never_comes(started):
    started.send("choose_model", model="decoder/llama3-8b")
    started.send("choose_machines", on="64 H100")
    started.send("stop_start")
    assert started.start["work"] is None
    started.send("choose_model", model="two_layer")
    assert started.settled()["answer"]["headline"].startswith("two_layer fits on")


def test_functions_of_the_folder_are_listed_unread_and_one_that_is_allowed_begins_a_plan(tmp_path, monkeypatch):
    (tmp_path / "start_mine.py").write_text(
        "import workbench as wb\n\n\ndef program() -> wb.Program:\n    return wb.models.build('two_layer')\n\n\ndef my_loss(p, b): ...\n"
    )
    (tmp_path / "start_other.py").write_text("raise SystemExit\n\n\ndef build() -> 'Program': ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    board = StartedBoard(folder=tmp_path, allow=("start_mine",))
    listed = {each["key"]: each for each in board.start["functions"]}
    assert list(listed) == ["start_mine:program", "start_mine:my_loss", "start_other:build"]
    assert "wb.trace_training(my_loss, params, batch" in listed["start_mine:my_loss"]["lines"]
    assert listed["start_other:build"]["command"] == "workbench serve --allow start_other"
    refusal = board.send("choose_model", model="start_other:build")["refusal"]
    assert refusal["message"] == "`start_other:build` was not allowed here, so its module is not imported."
    assert board.send("choose_model", model="start_mine:my_loss")["refusal"]["message"].startswith("`start_mine:my_loss` is a loss")
    board.send("choose_model", model="start_mine:program")
    board.send("choose_machines", on="1 H100")
    assert board.settled()["answer"]["headline"] == "start_mine:program fits on 1 H100; 1 device is enough."
    board.board.close()
