"""The start panel: what can be chosen, the answer with its rows, the row that opens on the board; and what is refused, in words."""

import json
import queue
import re
import time

import pytest

from tests.support.scripted import HeldRunner
from workbench.documents import dump_plan
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.models.registry import ALL_MODELS
from workbench.models.sizing.cluster_question import format_amount
from workbench.models.sizing.nearest_program import program_parameters
from workbench.public_plan import Plan
from workbench.reports.run_events import Cancelled, Failed
from workbench.session.plan_history import Session
from workbench.widgets.board.board import Board
from workbench.widgets.board.board_host import Host
from workbench.widgets.start.model_choices import find_choice
from workbench.widgets.start.start_answer import RecipeAnswer
from workbench.widgets.start.start_panel import MACHINES

LIMIT = 60.0  # seconds


class StartedBoard:
    """A board whose event loop is this test: `send` answers a gesture, `wait` does what threads have handed over until something holds."""

    def __init__(self, runner=None, **host):
        self.parts, self._owed, self._seq = {}, queue.Queue(), 0
        plan = Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", "batch:data")
        host = Host(**{"starts": True, "start_open": True, **host})
        self.board = Board(Session(plan), self.parts.__setitem__, runner=runner, defer=self._owed.put, host=host)

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


@pytest.mark.parametrize("model", [model for model in ALL_MODELS if not model.presets], ids=lambda model: model.name)
def test_a_model_without_presets_shows_the_parameters_of_its_defaults(model):
    assert model.parameters == program_parameters(build(model.name))
    choice = find_choice(model.name, (), ())
    assert choice.about == model.about + (f"; {format_amount(model.parameters)} parameters" if model.parameters else "")


def test_a_board_that_offers_no_start_has_no_panel_and_refuses_its_gestures():
    board = StartedBoard(starts=False)
    assert board.start is None
    assert board.state["model"] is None
    refusal = board.send("choose_model", model="two_layer")["refusal"]
    assert refusal == {
        "zone": "start panel",
        "message": "This board cannot start other plans.",
        "ways_out": ["open a board of your own"],
        "edits": [],
    }


def test_the_panel_lists_the_zoo_the_machines_and_the_lessons_while_it_is_open(started):
    assert [card["title"] for card in started.start["zoo"]][:2] == ["llama3-8b", "llama3-70b"]
    assert len(started.start["zoo"]) > 100
    assert started.start["machines"] == list(MACHINES)
    assert sum(len(course["lessons"]) for course in started.start["lessons"]) == 24
    assert started.send("new_plan", open=False)["start"] == {"open": False}
    assert json.dumps(started.state)  # no tuples of its own kinds


def test_two_choices_answer_and_a_third_opens_a_plan_that_fits(started):
    started.send("choose_model", model="decoder/llama3-8b")
    assert (started.start["model"]["title"], started.start["missing"]) == ("llama3-8b", "Now choose machines.")
    assert started.start["answer"] is None
    started.send("choose_machines", on="8 H100")
    phase = started.start["work"]["phase"]
    assert "llama3-8b" in phase or phase == "Collecting what was assumed"  # the last phase, where the machine was fast
    answer = started.settled()["answer"]
    assert answer["tone"] == "good"
    assert answer["headline"].startswith("llama3-8b fits on 8 H100: 8 devices take ")
    assert [row["goal"] for row in answer["rows"]] == ["fastest", "fewest devices", "cheapest"]
    assert cells(answer["rows"][0])["devices"] == "8"
    assert cells(answer["rows"][1])["devices"] == "2"
    assert not any("--" in note for note in answer["notes"])
    times = [cells(row)["step time"] for row in answer["rows"]]
    assert all(re.fullmatch(r"[\d.]+ s( \(estimated\)|, [\d.]+ to [\d.]+ s)", text) for text in times), times
    started.send("choose_machines", on="8 H100", total="2T")
    assert " for 2T tokens; " in started.settled()["answer"]["headline"]
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
    assert started.send("choose_machines", on="4 A100")["start"]["missing"] == "Now choose a model."
    assert started.send("choose_model", model="mnist")["start"]["missing"] == ""
    answer = started.settled()["answer"]
    assert answer["headline"] == "mnist fits on 4 A100-80GB; 1 device is enough."
    assert cells(answer["rows"][1])["layout"] == "one device"
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
        ("choose_model", {"model": "os:system"}, "There is no function `os:system` here to start with."),
        ("choose_machines", {"on": "8 H1000"}, "There is no hardware `H1000`"),
        ("choose_machines", {"on": "attached"}, "No devices are attached to this board."),
        ("start_file", {"name": "a.json", "text": "{"}, "`a.json` is not valid JSON"),
        ("start_file", {"name": "a.json", "text": None}, "`a.json` is too large."),
        (
            "start_file",
            {"name": "a.json", "text": '{"model_type": "unheard"}'},
            "`a.json`: the `model_type` `unheard` is not in a known family",
        ),
        ("open_layout", {"goal": "fastest"}, "There is no answer yet, so no layout to open."),
    ],
)
def test_what_cannot_be_chosen_is_refused_in_the_panel(started, verb, fields, message):
    started.send("choose_model", model="two_layer")
    refusal = started.send(verb, **fields)["refusal"]
    assert refusal["zone"] == "start panel"
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


@pytest.fixture
def measuring():
    runner = HeldRunner()
    board = StartedBoard(runner=runner)
    board.send("choose_model", model="two_layer")
    board.send("choose_machines", on="attached")
    yield board, runner
    board.board.close()


def test_a_measurement_that_is_waited_for_can_be_stopped(measuring):
    board, runner = measuring
    assert board.start["work"]["phase"] == "Measuring this machine: starting"
    board.send("stop_start")
    runner.tell(Cancelled())
    assert board.wait(lambda: board.start["work"] is None)
    assert runner.cancels == 1


def test_why_the_attached_devices_could_not_be_measured_is_said_where_it_is_waited_for(measuring):
    board, runner = measuring
    runner.tell(Failed("no room"))
    board.wait(lambda: board.start["problem"] is not None)
    assert board.start["problem"] == {"message": "The measurement failed: no room", "ways_out": ["choose other machines"]}
    assert board.start["work"] is None


def test_a_problem_is_gone_while_another_layout_is_opened(started):
    started.send("choose_machines", on="4 A100")
    started.send("choose_model", model="mnist")
    started.settled()
    started.send("open_layout", goal="none")
    assert started.settled()["problem"]["message"] == "The answer has no layout `none`."
    assert started.send("open_layout", goal="fastest")["start"]["problem"] is None


def test_what_no_recipe_fits_says_on_how_many_devices_that_was_tried():
    hardware = parse_hardware("4 H100")
    answer = RecipeAnswer("big", hardware, {}, None, 256)
    assert answer.state()["headline"] == "big on 4 H100: no recipe fits, on up to 256 devices."


def test_configs_of_the_folder_and_of_the_folders_in_it_are_listed_and_one_is_chosen(tmp_path):
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    for name, text in (
        ("config.json", json.dumps({**config, "vocab_size": 256})),
        ("mine/config.json", json.dumps({**config, "vocab_size": 512, "_name_or_path": "me/mine"})),
        ("other/config.json", '{"compiler": "of another tool"}'),
        ("broken/config.json", "{"),
        (".hidden/config.json", json.dumps(config)),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    board = StartedBoard(folder=tmp_path)
    assert [(each["key"], each["about"]) for each in board.start["configs"]] == [
        ("file/config.json", "Llama, 115k parameters"),
        ("file/mine/config.json", "Llama, 148k parameters"),
    ]
    board.send("choose_model", model="file/mine/config.json")
    assert (board.start["model"]["title"], board.start["model"]["sized"]) == ("mine", True)
    assert board.send("choose_model", model="file/../config.json")["refusal"]
    board.board.close()


def test_functions_of_the_folder_are_listed_unread_and_one_that_is_allowed_begins_a_plan(tmp_path, monkeypatch):
    (tmp_path / "start_mine.py").write_text(
        "import workbench as wb\n\n\ndef program() -> wb.Program:\n    return wb.models.build('two_layer')\n\n\ndef my_loss(p, b): ...\n"
    )
    (tmp_path / "start_sized.py").write_text("def build(*, size) -> 'Program': ...\n")
    (tmp_path / "start_other.py").write_text("raise SystemExit\n\n\ndef build() -> 'Program': ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    board = StartedBoard(folder=tmp_path, allow=("start_mine", "start_sized"))
    listed = {each["key"]: each for each in board.start["functions"]}
    assert list(listed) == ["start_mine:program", "start_sized:build", "start_mine:my_loss", "start_other:build"]
    assert "wb.trace_training(my_loss, params, batch" in listed["start_mine:my_loss"]["lines"]
    assert listed["start_other:build"]["command"] == "workbench serve --allow start_other"
    refusal = board.send("choose_model", model="start_other:build")["refusal"]
    assert refusal["message"] == "`start_other:build` was not allowed here, so its module is not imported."
    assert board.send("choose_model", model="start_mine:my_loss")["refusal"]["message"].startswith("`start_mine:my_loss` is a loss")
    assert "takes arguments" in board.send("choose_model", model="start_sized:build")["refusal"]["message"]
    board.send("choose_model", model="start_mine:program")
    board.send("choose_machines", on="1 H100")
    assert board.settled()["answer"]["headline"] == "start_mine:program fits on 1 H100; 1 device is enough."
    board.board.close()
