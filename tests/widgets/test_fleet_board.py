"""The board of a fleet, without a browser: what it predicts at once, what it refuses, and how a run is told on it."""

import json
import time
from dataclasses import replace

import pytest

from tests.support.fleets import ToldRunner, Training, three_models, times_of
from tests.support.packed_spans import SentSpan, read_spans
from workbench.app.notebook.fleet_cell import fleet_html
from workbench.documents import load_fleet
from workbench.errors import EngineError, FleetError
from workbench.multimodel import ALL_POLICIES, lower_bound
from workbench.multimodel.fleet import FleetModel
from workbench.multimodel.fleet_forecast import forecast
from workbench.multimodel.greedy_partition import shard_bytes
from workbench.multimodel.training_events import (
    AddModel,
    CheckpointNotice,
    CommandDone,
    CommandRefused,
    ModelFailed,
    RemoveDevice,
    ReturnDevice,
    SchedulePredicted,
    StopModel,
    TimingDone,
    UnitDone,
)
from workbench.multimodel.unit_schedule import ScheduledUnit
from workbench.reports.run_events import Cancelled, Failed, Progress
from workbench.units import format_bytes, format_seconds
from workbench.visualize.charts.fleet_chart import RunSoFar, fleet_chart, run_section
from workbench.visualize.charts.packed_spans import NUMBER
from workbench.widgets.fleet.fleet_board import FleetView

BUDGET = 12 * 1024


@pytest.fixture(scope="module")
def fleet():
    return three_models(memory=BUDGET)


@pytest.fixture(scope="module")
def times(fleet):
    return times_of(forecast(fleet))


@pytest.fixture
def runner() -> ToldRunner:
    return ToldRunner()


@pytest.fixture
def view(fleet, times, runner) -> FleetView:
    return FleetView(fleet, runner, times, path="grid.toml")


def ask(view: FleetView, verb: str, value: str = "", **fields: str) -> dict:
    view.answer({"verb": verb, "value": value, **fields, "view": "test", "seq": view.parts["board"]["answer"]["seq"] + 1})
    return view.parts["board"]


def figure(view: FleetView, key: str) -> dict:
    return next(each for each in view.parts["board"]["figures"] if each["key"] == key)


def ran(view: FleetView, runner: ToldRunner) -> Training:
    """A run that has begun."""
    ask(view, "run")
    training = Training(runner.runs[-1], view.seen)
    training.begin()
    return training


def live(view: FleetView) -> dict:
    ask(view, "refresh")
    return view.parts["live"]


def spans(view: FleetView, tier: str) -> list[SentSpan]:
    """The units of one tier that the chart of the schedule shows: those of the prediction, and what a run has added."""
    chart, ran = view.parts["table"]["timeline"]["picture"]["charts"][0], view.parts["live"]["ran"]
    found = read_spans(*chart["spans"], *(ran["spans"] if ran else ()))
    return [each for each in found if each.tier == tier and each.number > 0]


def measured(view: FleetView) -> list[SentSpan]:
    return spans(view, "measured")


def expected(view: FleetView) -> list[SentSpan]:
    return spans(view, "current forecast")


def test_it_lists_the_models_cut_into_shards_that_fit(view, fleet):
    board = view.parts["board"]
    assert board["columns"] == ["Learning rate", "Layers"]
    deep = next(each for each in board["models"] if each["name"] == "deep")
    assert deep["arguments"] == ["0.01", "8"]
    assert deep["epochs"] == "1 × 10"
    room = board["controls"]["room"]
    assert room.startswith(format_bytes(int(BUDGET * 0.85)))
    for each in view.seen.models:
        assert len(each.shards) > 1
        assert all(shard.bytes <= BUDGET * 0.85 for shard in each.shards)
    assert [len(each["shards"]) for each in board["models"]] == [len(each.shards) for each in view.seen.models]


def test_the_makespan_stands_beside_its_bound_and_every_other_way(view):
    ways = {each["label"]: each for each in view.parts["board"]["ways"]}
    jobs, makespan = view.seen.jobs, view.seen.schedule.makespan
    assert figure(view, "makespan")["text"] == format_seconds(makespan)
    assert figure(view, "bound")["text"] == format_seconds(lower_bound(jobs, 2))
    for name in ("one at a time", "model parallel", "task parallel", "pipelined", "lower bound"):
        assert ways[name]["text"]
        assert ways[name]["ratio"].endswith("×")
    assert max(each["share"] for each in ways.values()) == 1.0


def test_the_timeline_holds_every_unit_of_the_schedule(view):
    found = spans(view, "predicted")
    assert len({each.title for each in found}) == len(found) == sum(job.length for job in view.seen.jobs)
    assert {each.lane for each in found} == {"device 0", "device 1"}
    assert max(each.start + each.seconds for each in found) == pytest.approx(view.seen.schedule.makespan)
    (chart,) = view.parts["table"]["timeline"]["picture"]["charts"]
    weights = {title: weight for _, title, _, weight, *_ in chart["spans"][0]["styles"]}
    assert weights[f"deep, forward of shard 0, mini-batch {NUMBER}"] < weights[f"deep, backward of shard 0, mini-batch {NUMBER}"] == 1
    json.dumps(view.parts, allow_nan=False)


def test_when_state_was_brought_in_has_a_lane_of_its_own(view):
    (chart,) = view.parts["table"]["timeline"]["picture"]["charts"]
    moved = [each for each in read_spans(*chart["spans"]) if each.number < 0]
    loads = [each for each in view.seen.schedule.placed if each.load < each.start]
    assert sorted(each.seconds for each in moved) == pytest.approx(sorted(each.start - each.load for each in loads), rel=1e-5)
    assert {each.title for each in moved} <= {f"state of {job.name} brought in" for job in view.seen.jobs}


def test_the_text_and_the_picture_of_the_schedule_are_made_once_they_are_asked_for(view):
    picture = view.parts["table"]["timeline"]["picture"]
    assert (picture["svg"], picture["text"]) == (None, None)
    ask(view, "picture", name=picture["name"])
    picture = view.parts["table"]["timeline"]["picture"]
    assert picture["svg"].startswith("<svg")
    assert picture["text"].startswith(picture["about"])
    ask(view, "policy", "random")
    assert view.parts["table"]["timeline"]["picture"]["text"] is None


@pytest.mark.parametrize("policy", [each.name for each in ALL_POLICIES])
def test_each_policy_changes_the_schedule_at_once(view, policy):
    board = ask(view, "policy", policy)
    assert board["refusal"] is None
    assert view.fleet.policy == policy
    assert view.seen.schedule.faults() == []
    offered = {each["name"]: each["text"] for each in board["controls"]["policies"]}
    assert offered[policy] == figure(view, "makespan")["text"]
    assert all(text for name, text in offered.items() if name != "exact")  # which a solver is asked for when a hand asks


def test_another_number_of_devices_is_another_schedule_and_the_difference_is_told(view):
    before = view.seen.schedule.makespan
    ask(view, "devices", "1")
    assert view.seen.devices == view.parts["table"]["timeline"]["devices"] == 1
    assert view.seen.units > before
    assert figure(view, "makespan")["delta"]["tone"] == "bad"
    ask(view, "devices", "2")
    assert figure(view, "makespan")["delta"]["tone"] == "good"


def test_a_smaller_budget_makes_more_shards_with_scaled_seconds(view, fleet):
    before = sum(len(each.shards) for each in view.seen.models)
    ask(view, "budget", "more")
    assert sum(len(each.shards) for each in view.seen.models) < before
    assert "scaled" in figure(view, "makespan")["note"]
    ask(view, "budget", "less")
    assert view.fleet.memory == BUDGET
    assert figure(view, "makespan")["note"] == "from measured unit times, alone and concurrent"
    ask(view, "memory", "")
    assert [len(each.shards) for each in view.seen.models] == [1, 1, 1]
    assert view.parts["board"]["controls"]["room"] == "all memory"


def test_a_budget_smaller_than_a_layer_is_told_with_the_layer_and_nothing_is_lost(view, fleet):
    before = view.parts["table"]
    board = ask(view, "memory", "2 KiB")
    message = board["refusal"]["message"]
    for words in ("Model `a`: Layer `layer_0", "alone takes", "2.00 KiB less 15% for the buffer"):
        assert words in message
    assert board["refusal"]["zone"] == "memory"
    assert board["controls"]["memory"] == "2 KiB"  # what was typed stays
    assert board["controls"]["wrong"] == ["memory"]
    assert view.fleet == fleet
    assert view.parts["table"] is before
    assert ask(view, "policy", "shortest")["refusal"] is None
    assert view.parts["board"]["controls"]["memory"] == format_bytes(BUDGET)


@pytest.mark.parametrize(
    ("verb", "value", "message"),
    [
        ("memory", "lots", '"lots" is not an amount of memory.'),
        ("devices", "0", "`0` is not a number of devices"),
        ("devices", "65", "it is a whole number from 1 to 64"),
        ("policy", "longest", "There is no policy `longest`"),
    ],
)
def test_what_cannot_be_is_refused_in_words(view, fleet, verb, value, message):
    board = ask(view, verb, value)
    assert message in board["refusal"]["message"]
    assert view.fleet == fleet
    assert ask(view, "dismiss")["refusal"] is None


def test_a_gesture_told_again_is_not_done_again(view):
    gesture = {"verb": "budget", "value": "more", "view": "v", "seq": 7}
    view.answer(gesture)
    view.answer({**gesture, "again": True})
    assert view.fleet.memory == 2 * BUDGET
    assert view.parts["board"]["answer"] == {"view": "v", "seq": 7}


def test_units_are_timed_once_when_somebody_looks(fleet, runner, times):
    view = FleetView(fleet, runner)
    assert "estimated" in figure(view, "makespan")["note"]
    view.look()
    view.look()
    (timing,) = runner.timings
    assert view.parts["board"]["timing"]["phase"] == "running"
    timing.tell(Progress("cutting `a`"))
    assert view.parts["board"]["timing"]["stage"] == "cutting a"
    timing.tell(TimingDone(times))
    assert figure(view, "makespan")["note"] == "from measured unit times, alone and concurrent"
    assert view.seen.jobs == times.jobs


def test_a_run_ends_the_timing_and_brings_its_own_times(fleet, runner):
    view = FleetView(fleet, runner)
    view.look()
    training = ran(view, runner)
    assert runner.timings[0].cancels == 1
    assert view.times == training.times.for_models(fleet.models)
    assert figure(view, "makespan")["note"] == "from measured unit times, alone and concurrent"


def test_what_the_timing_finds_wrong_is_told(fleet, runner):
    view = FleetView(fleet, runner)
    view.look()
    runner.timings[0].tell(Failed("Layer `x` alone takes 3 MiB."))
    timing = view.parts["board"]["timing"]
    assert (timing["phase"], timing["message"], timing["can_time"]) == ("error", "Layer `x` alone takes 3 MiB.", True)


def test_before_the_compiler_has_said_a_layer_that_may_not_fit_is_a_doubt_and_no_refusal(runner, fleet, times):
    from workbench.multimodel.unit_estimates import layers_of

    layers = layers_of(fleet.models[0].program)
    alone = max(shard_bytes(layers, i, i + 1) for i in range(len(layers)))
    tight = fleet.updated(memory=int(0.95 * alone / 0.85))
    assert max(each.resident for each in layers) < tight.memory * 0.85
    board = FleetView(tight, runner).parts["board"]
    assert board["problem"] is None
    assert "its sizes are known after timing" in board["doubt"]
    known = FleetView(tight, runner, times).parts["board"]  # compiled, they need half of the estimate
    assert (known["problem"], known["doubt"]) == (None, "")


def test_a_fleet_that_cannot_fit_is_shown_with_its_problem_and_mended(fleet, runner):
    view = FleetView(fleet.updated(memory=1000), runner)
    board = view.parts["board"]
    assert "alone takes" in board["problem"]["message"]
    assert [each["name"] for each in board["models"]] == ["a", "b", "deep"]
    board = ask(view, "memory", "1 MiB")
    assert board["problem"] is None
    assert figure(view, "makespan")


def test_a_run_grows_beneath_its_prediction_and_ends_with_both(view, runner):
    training = ran(view, runner)
    assert view.parts["board"]["locked"]
    training.units(30)
    state = live(view)
    assert len(measured(view)) == 30
    assert state["phase"] == "running"
    assert state["stage"] == "6 of 30 mini-batches"
    assert state["left"].startswith("at least ")
    assert 0 < state["fraction"] < 1
    assert {each["state"] for each in state["models"].values()} <= {"waiting", "running"}
    assert ask(view, "policy", "random")["refusal"]["message"] == "The models are training."
    training.units()
    training.done()
    state = view.parts["live"]
    assert {each["state"] for each in state["models"].values()} == {"finished"}
    assert state["models"]["a"]["loss"] == f"{training.losses['a'][-1]:.4g}"
    assert [line["key"] for line in state["losses"]["lines"]] == ["a", "b", "deep"]
    assert figure(view, "makespan")["tiers"][0]["label"] == "measured"
    assert "the same, measured" in [each["label"] for each in view.parts["board"]["ways"]]
    ask(view, "picture", name="fleet timeline")
    assert "measured, 0 to" in view.parts["table"]["timeline"]["picture"]["text"]
    assert "peak memory of a device" in [each["label"] for each in state["facts"]]
    assert view.measurement is not None


def test_while_units_are_compiled_each_model_says_so_in_its_turn(view, runner):
    ask(view, "run")
    tell = runner.runs[-1].tell

    def states() -> list[str]:
        return [each["state"] for each in live(view)["models"].values()]

    assert states() == ["waiting", "waiting", "waiting"]
    tell(Progress("cutting `a`", model="a"))
    tell(Progress("cutting `b`", model="b"))
    assert states() == ["cut", "cutting", "waiting"]  # none is compiled before all are cut
    tell(Progress("compiling 1 unit of `a` for 2 devices", model="a"))
    assert states() == ["compiling", "cut", "waiting"]
    assert live(view)["stage"] == "compiling 1 unit of a for 2 devices"
    assert live(view)["left"] == ""
    assert live(view)["log"][-1]["text"] == "compiling 1 unit of a for 2 devices"
    tell(Progress("compiling 7 units of `b` for 2 devices", model="b"))
    assert states() == ["compiled", "compiling", "waiting"]
    tell(Progress("timing the units"))
    assert states() == ["compiled", "compiled", "waiting"]
    Training(runner.runs[-1], view.seen).begin()
    assert states() == ["waiting", "waiting", "waiting"]


def test_what_an_earlier_run_has_done_or_stopped_is_told_at_once(view, runner):
    ask(view, "run")
    training = Training(runner.runs[-1], view.seen)
    lengths = [job.length for job in view.seen.jobs]
    training.begun = (lengths[0], 4, 0), (lengths[0], 4, lengths[2])
    training.begin()
    state = live(view)
    assert [each["state"] for each in state["models"].values()] == ["finished", "stopped", "waiting"]
    assert [each["text"] for each in state["log"]][1:3] == [
        "a is finished from an earlier run",
        "b is stopped from an earlier run",
    ]
    assert not state["models"]["a"]["can_stop"]


def test_a_run_that_found_all_done_says_so_and_shows_no_seconds(view, runner):
    training = ran(view, runner)
    training.units(0)
    training.done()
    state = view.parts["live"]
    assert state["said"] == state["log"][-1]["text"] == "All models were trained in an earlier run."
    assert figure(view, "makespan")["tiers"] == []
    assert "the same, measured" not in [each["label"] for each in view.parts["board"]["ways"]]


def test_a_model_that_fails_or_whose_loss_is_no_number_is_marked(view, runner):
    training = ran(view, runner)
    tell = training.handle.tell
    unit = UnitDone("a", 2, view.seen.jobs[0].length, float("nan"), ScheduledUnit(0, 1, 0, 0.0, 0.1, 0.0))
    tell(unit)
    tell(replace(unit, done=3))
    tell(ModelFailed("b", 0, 0, "The training of model `b` stopped."))
    state = live(view)
    assert (state["models"]["a"]["loss"], state["models"]["b"]["state"]) == ("not a number", "failed")
    texts = [(each["text"], each["tone"]) for each in state["log"]]
    assert texts.count(("a: the loss of mini-batch 1 is nan", "bad")) == 1
    assert texts[-1] == ("The training of model b stopped.", "bad")
    tell(replace(unit, done=4, of=4, loss=None, ended="stopped: loss 1 is below its stop_below of 2"))
    assert live(view)["models"]["a"]["state"] == "stopped"
    assert live(view)["log"][-1]["text"] == "a has stopped: loss 1 is below its stop_below of 2"


def test_the_seconds_of_a_run_pass_while_it_says_nothing(view, runner):
    """Cutting and compiling take minutes without an event; the browser counts on from these seconds."""
    ask(view, "run")
    runner.runs[-1].tell(Progress("cutting `a`", model="a"))
    first = live(view)["seconds"]
    view._work.live.started -= 85
    assert live(view)["seconds"] >= first + 85
    assert live(view)["stage"] == "cutting a"
    Training(runner.runs[-1], view.seen).begin()
    runner.runs[-1].tell(Cancelled())
    assert live(view)["seconds"] == 0.0


def test_a_stopped_model_ends_with_its_mini_batch(view, runner):
    training = ran(view, runner)
    training.units(24)
    ask(view, "stop", "deep")
    assert runner.runs[-1].commands == [StopModel("deep")]
    training.stopped("deep")
    left = live(view)["left"]
    training.units()
    state = live(view)["models"]["deep"]
    assert state["state"] == "stopped"
    assert not state["can_stop"]
    assert state["share"] < 1
    assert view.parts["live"]["models"]["a"]["state"] == "finished"
    assert "left" in left


def test_a_model_that_is_stopped_before_its_first_unit_is_stopped(view, runner):
    training = ran(view, runner)
    training.stopped("deep")
    state = live(view)
    assert state["models"]["deep"]["state"] == "stopped"
    assert not state["models"]["deep"]["can_stop"]
    assert state["log"][-1]["text"] == "deep is stopped"


def test_a_model_that_a_hand_has_stopped_says_that_the_next_run_goes_on_with_it(fleet, times, tmp_path, runner):
    view = FleetView(fleet.updated(folder=tmp_path), runner, times)
    training = ran(view, runner)
    training.units(24)
    training.stopped("deep")
    training.units()
    state = live(view)
    assert state["models"]["deep"]["batches"].endswith(" of 10; Run continues it")
    assert any(each["text"] == "deep is stopped; Run continues it" for each in state["log"])
    training.done()
    assert view.parts["live"]["models"]["a"]["batches"] == "10 of 10"
    for each in fleet.models:
        (tmp_path / each.name).mkdir()
    assert ask(view, "run")["refusal"] is None
    assert len(runner.runs) == 2


def test_a_run_of_what_the_last_run_has_finished_says_so_at_once(fleet, times, tmp_path, runner):
    view = FleetView(fleet.updated(folder=tmp_path), runner, times)
    for each in fleet.models:
        (tmp_path / each.name).mkdir()
    training = ran(view, runner)
    training.units()
    training.done()
    refusal = ask(view, "run")["refusal"]
    assert refusal["message"] == "All models are already trained."
    assert refusal["ways_out"][1] == "choose another folder to train them again"
    assert len(runner.runs) == 1
    assert view.parts["live"]["phase"] == "done"
    assert figure(view, "makespan")["tiers"][0]["label"] == "measured"
    (tmp_path / "b").rmdir()  # to train it anew
    assert ask(view, "run")["refusal"] is None
    assert len(runner.runs) == 2


def test_a_device_is_taken_away_and_given_back(view, runner):
    training = ran(view, runner)
    training.units(4)
    ask(view, "leave", "1")
    ask(view, "return", "1")
    assert runner.runs[-1].commands == [RemoveDevice(1), ReturnDevice(1)]
    training.handle.tell(CommandDone(RemoveDevice(1)))
    assert live(view)["away"] == [1]
    training.handle.tell(CommandDone(ReturnDevice(1)))
    assert live(view)["away"] == []


def test_a_model_that_is_added_joins_the_run_and_is_predicted_with_it(view, runner, fleet):
    before = view.seen.units
    training = ran(view, runner)
    training.units(4)
    view.add(FleetModel("late", fleet.models[0].program, 10))
    assert runner.runs[-1].commands == [AddModel("late")]
    assert [each["name"] for each in view.parts["board"]["models"]] == ["a", "b", "deep", "late"]
    assert view.seen.units > before
    assert len(measured(view)) == 4  # the run is still this fleet's
    assert live(view)["models"]["late"]["state"] == "waiting"
    with pytest.raises(FleetError, match="late"):
        view.add(FleetModel("late", fleet.models[0].program, 10))


def join(training: Training, model: FleetModel) -> None:
    """As the engine takes it in: it tells the schedule anew."""
    seen = forecast(training.handle.fleet.updated(models=(*training.handle.fleet.models, model)))
    training.handle.tell(SchedulePredicted(tuple(each.name for each in seen.jobs), 2, 1.0, (), times_of(seen)))


def test_what_a_checkpoint_has_lost_stands_in_the_log(view, runner):
    message = "The newest checkpoint in kept/a is damaged."
    ran(view, runner).handle.tell(CheckpointNotice("a", message))
    ask(view, "refresh")
    assert (live(view)["log"][-1]["text"], live(view)["log"][-1]["tone"]) == (message, "warn")


def test_a_model_that_may_not_join_is_gone_and_the_next_one_has_its_place(view, runner, fleet):
    training = ran(view, runner)
    training.units(4)
    view.add(FleetModel("refused", fleet.models[0].program, 10))
    view.add(FleetModel("late", fleet.models[0].program, 10))
    message = "Model `refused`: Layer `x` alone takes 3 MiB."
    training.handle.tell(CommandRefused(AddModel("refused"), message))
    assert [each["name"] for each in view.parts["board"]["models"]] == ["a", "b", "deep", "late"]
    assert list(live(view)["models"]) == ["a", "b", "deep", "late"]
    assert live(view)["log"][-1]["text"] == message.replace("`", "")
    join(training, FleetModel("late", fleet.models[0].program, 10))
    training.handle.tell(UnitDone("late", 1, 70, None, ScheduledUnit(3, 0, 0, 1.0, 1.1, 1.0)))
    ask(view, "refresh")
    assert "late, forward of shard 0, mini-batch 1" in {each.title for each in measured(view)}
    view.add(FleetModel("refused", fleet.models[0].program, 5))  # mended
    assert runner.runs[-1].commands[-1] == AddModel("refused")


def test_a_model_that_cannot_be_sent_changes_nothing(view, runner, fleet, monkeypatch):
    ran(view, runner)

    def refuse(model: FleetModel) -> AddModel:
        if model.name == "open":
            raise EngineError("model `open` cannot be sent to a worker process")
        return AddModel(model.name)

    monkeypatch.setattr(runner, "add_model_command", refuse)
    with pytest.raises(EngineError):
        view.add(*(FleetModel(name, fleet.models[0].program, 10) for name in ("fine", "open")))
    assert view.fleet == fleet
    assert runner.runs[-1].commands == []
    assert "fine" not in live(view)["models"]


def test_a_model_that_came_when_the_run_had_ended_waits_for_the_next_one(view, runner, fleet):
    training = ran(view, runner)
    training.units()
    view.add(FleetModel("late", fleet.models[0].program, 10))
    training.done()
    state = view.parts["live"]
    assert set(state["models"]) == {"a", "b", "deep"}
    assert state["log"][-2]["text"] == "late was added too late: the run has ended"
    assert state["stale"].startswith("The last run was of")
    assert view.fleet.models[-1].name == "late"


def test_the_file_read_again_with_another_program_of_that_name_is_predicted_anew(tmp_path, runner):
    model = '[[models]]\nname = "fit"\nprogram = "tests.support.fleets:perceptron"\narguments = {{ layers = {} }}\n'
    path = tmp_path / "grid.toml"
    path.write_text(model.format(8))
    fleet = load_fleet(path, allow="tests")
    budget = 12 * 1024
    times = times_of(forecast(fleet.updated(memory=budget)))
    view = FleetView(fleet.updated(memory=budget), runner, times, path=str(path), allow=("tests",))
    assert view.seen.source == "timed"
    path.write_text(model.format(4))
    board = ask(view, "reread")
    assert board["refusal"] is None
    assert view.seen.source == "estimated"
    assert {each.first for each in view.seen.models[0].shards} <= {f"layer_{place}" for place in range(4)}
    path.write_text(model.format(8) + 'cuts = ["layer_5"]\n')
    assert ask(view, "memory", "1 MiB")["refusal"] is None
    ask(view, "reread")
    assert [each.first for each in view.seen.models[0].shards] == ["layer_0", "layer_5"]
    assert view.seen.source == "scaled"
    path.write_text(model.format(8) + "mini_batches = 3\n")
    ask(view, "memory", "12 KiB")
    ask(view, "reread")
    assert view.seen.source == "timed"
    assert view.seen.jobs[0].mini_batches == 3


def test_times_are_of_the_fleet_that_was_timed_though_it_was_changed_meanwhile(fleet, runner, times):
    view = FleetView(fleet, runner)
    view.look()
    other = replace(fleet.models[0], program=fleet.models[2].program)
    view._take((other, *fleet.models[1:]))
    runner.timings[0].tell(TimingDone(times))
    assert [each.source for each in view.seen.models] == ["estimated", "timed", "timed"]


def test_a_run_on_fewer_devices_than_were_planned_for_is_predicted_and_expected_on_these(fleet, times, runner):
    view = FleetView(fleet.updated(devices=None), runner, times, path="grid.toml")
    assert view.parts["board"]["devices"] == "on 3 devices"
    ask(view, "run")
    training = Training(runner.runs[-1], view.seen, devices=1)
    training.begin()
    assert view.parts["board"]["devices"] == "on 1 device"
    assert view.seen.devices == view.parts["table"]["timeline"]["devices"] == 1
    training.units(9)
    until(lambda: expected(view))
    training.units()
    training.done()
    assert float(figure(view, "makespan")["tiers"][0]["note"].partition("×")[0]) == pytest.approx(1, rel=0.1)
    assert "--devices" not in view.parts["board"]["command"]


def test_nothing_is_expected_of_a_run_on_other_devices_than_the_prediction(view, runner):
    ask(view, "run")
    training = Training(runner.runs[-1], view.seen, devices=3)
    training.begin()
    training.units(9)
    time.sleep(0.3)
    ask(view, "refresh")
    assert view.seen.devices == 2
    assert expected(view) == []


def test_the_file_read_again_brings_new_models_and_stops_those_that_are_gone(tmp_path, runner):
    grid = '[[models]]\nname = "fit"\nprogram = "tests.support.importable:regression"\ngrid = {{ width = {} }}\n'
    path = tmp_path / "grid.toml"
    path.write_text(grid.format([8, 16]))
    view = FleetView(load_fleet(path, allow="tests"), runner, path=str(path), allow=("tests",))
    path.write_text(grid.format([8, 32]))
    ask(view, "reread")
    assert [each.name for each in view.fleet.models] == ["fit-width=8", "fit-width=32"]
    ask(view, "run")
    path.write_text(grid.format([32, 64]))
    ask(view, "reread")
    assert runner.runs[-1].commands == [AddModel("fit-width=64"), StopModel("fit-width=8")]
    assert [each.name for each in view.fleet.models] == ["fit-width=8", "fit-width=32", "fit-width=64"]
    path.write_text("[[mod")
    assert "is not TOML" in ask(view, "reread")["refusal"]["message"]
    assert len(view.fleet.models) == 3


def test_cancelled_and_dead_runs_say_what_is_kept(fleet, times, tmp_path):
    runner = ToldRunner()
    view = FleetView(fleet.updated(folder=tmp_path), runner, times)
    training = ran(view, runner)
    training.units(5)
    ask(view, "cancel")
    assert runner.runs[-1].cancels == 1
    runner.runs[-1].tell(Cancelled())
    assert view.parts["live"]["message"] == f"Cancelled. Run continues from the checkpoint in {tmp_path}."
    assert len(measured(view)) == 5
    assert "interrupted" in {each["state"] for each in view.parts["live"]["models"].values()}
    assert not view.parts["board"]["locked"]
    ran(view, runner)
    runner.runs[-1].tell(Failed("The system killed the training of 3 models."))
    assert view.parts["live"]["phase"] == "error"
    assert "killed" in view.parts["live"]["message"]


def test_after_a_change_the_last_run_is_told_to_be_of_another_fleet(view, runner):
    training = ran(view, runner)
    training.units()
    training.done()
    ask(view, "devices", "1")
    state = view.parts["live"]
    assert measured(view) == []
    assert state["stale"].startswith("The last run was of sharded-lrtf on 2 devices")
    assert figure(view, "makespan")["tiers"] == []


def test_the_last_unit_is_shown_though_none_follows(view, runner):
    training = ran(view, runner)
    training.units(3)
    limit = time.monotonic() + 5
    while len(measured(view)) < 3 and time.monotonic() < limit:
        time.sleep(0.02)
    assert len(measured(view)) == 3


def test_many_units_are_simulated_aside_and_the_hand_is_answered_at_once(fleet, times, monkeypatch):
    monkeypatch.setattr("workbench.widgets.fleet.live_forecast.AT_ONCE", 10)
    view = FleetView(fleet, None, times)
    board = ask(view, "policy", "round-robin")
    assert board["controls"]["policy"] == "round-robin"
    limit = time.monotonic() + 5
    while (view.parts["board"]["waits"] or not view.parts["table"]["timeline"]) and time.monotonic() < limit:
        time.sleep(0.02)  # another thread shows one part after the other
    assert view.seen.fleet.policy == "round-robin"
    ends = [each.start + each.seconds for each in spans(view, "predicted")]
    assert max(ends) == pytest.approx(view.seen.schedule.makespan)


def test_what_is_simulated_aside_does_not_return_to_a_fleet_that_does_not_fit_any_more(fleet, times, runner, monkeypatch):
    monkeypatch.setattr("workbench.widgets.fleet.live_forecast.AT_ONCE", 10)
    monkeypatch.setattr("threading.Thread.start", lambda _: None)  # it has not come to its turn
    view = FleetView(fleet.updated(memory=1 << 20), runner)
    assert view.parts["board"]["waits"]
    large = replace(times, needs=tuple((1 << 22,) for _ in times.needs), starts=tuple((0,) for _ in times.starts), memory=0)
    view.look()
    runner.timings[0].tell(TimingDone(large))
    assert view.parts["board"]["problem"]
    view._forecast._simulate()
    assert view.seen is None
    assert not view.parts["board"]["waits"]


def test_half_or_twice_no_budget_is_all_of_the_largest_model(view):
    for value in ("more", "less"):
        ask(view, "memory", "")
        whole = max(each.bytes for each in view.seen.models)
        ask(view, "budget", value)
        assert view.fleet.memory == whole


def test_the_command_can_be_pasted(fleet, runner, times):
    view = FleetView(fleet, runner, times, path="my grids/a.toml")
    budget = f'--memory "{format_bytes(BUDGET)}"'
    assert view.parts["board"]["command"] == f"workbench fleet run 'my grids/a.toml' --policy sharded-lrtf --devices 2 {budget}"


def test_while_it_runs_the_board_says_what_is_now_expected(view, runner):
    training = ran(view, runner)
    training.left = [replace(each, start=2 * each.start, end=2 * each.end) for each in training.left]  # slower than was predicted
    training.units(9)
    until(lambda: expected(view) and figure(view, "makespan")["tiers"])
    done, left = {each.title for each in measured(view)}, {each.title for each in expected(view)}
    assert not done & left
    assert done | left == {each.title for each in spans(view, "predicted")}
    for device in ("device 0", "device 1"):  # what is expected follows what was measured
        ends = [each.start + each.seconds for each in measured(view) if each.lane == device]
        assert min(each.start for each in expected(view) if each.lane == device) >= max(ends, default=0) - 1e-6
    assert max(each.start + each.seconds for each in expected(view)) == pytest.approx(2 * training.predicted.makespan, rel=0.2)
    name, _, note = figure(view, "makespan")["tiers"][0].values()
    assert name == "now expected"
    assert note.endswith("of the prediction")
    training.units()
    training.done()
    assert expected(view) == []
    assert [each["label"] for each in figure(view, "makespan")["tiers"]] == ["measured"]


def test_units_that_are_too_many_are_drawn_as_shares_of_slices_of_time(fleet, times, runner, monkeypatch):
    monkeypatch.setattr("workbench.widgets.fleet.forecast_state.MOST_UNITS", 10)
    monkeypatch.setattr("workbench.visualize.charts.fleet_chart.MOST_UNITS", 10)
    view = FleetView(fleet, runner, times)
    timeline, schedule = view.parts["table"]["timeline"], view.seen.schedule
    assert timeline["note"].startswith(f"{len(schedule.placed)} units: the height of a colour")
    assert spans(view, "predicted") == []
    (chart,) = timeline["picture"]["charts"]
    shown = shares(chart["sources"]["slices"])
    unit = chart["spans"][0]["unit"]
    assert sum(shown) * unit / 18 == pytest.approx(sum(each.end - each.start for each in schedule.placed), rel=1e-3)  # lanes of 18 pixels
    begun = sum(int(title.rpartition(", ")[2].split()[0]) for title in chart["sources"]["slices"]["title"])
    assert begun == len(schedule.placed)
    training = ran(view, runner)
    training.units(30)
    ask(view, "refresh")
    assert measured(view) == []
    slices = view.parts["live"]["ran"]["sources"]["ran slices"]
    took = [end - start for _, _, _, start, end, *_ in view._work.live.measured]
    drawn = [share for share, alpha in zip(shares(slices), slices["alpha"], strict=True) if alpha > 0.5]
    assert sum(drawn) * unit / 18 == pytest.approx(sum(took), rel=1e-3)


def test_what_ran_is_drawn_into_the_chart_of_its_own_schedule_alone(view, runner):
    training = ran(view, runner)
    training.units(9)
    ask(view, "refresh")
    assert view.parts["live"]["ran"]["of"] == view.parts["table"]["timeline"]["of"]
    training.units()
    training.done()
    before = view.parts["live"]["ran"]["of"]
    ask(view, "memory", "24 KiB")  # other shards
    assert view.parts["table"]["timeline"]["of"] != before


def test_a_unit_that_was_lost_is_hatched_and_stands_beside_its_repetition(view):
    jobs, schedule = view.seen.jobs, view.seen.schedule
    unit = schedule.placed[0]
    again = replace(unit, start=2 * unit.end, end=3 * unit.end)
    part = run_section(jobs, schedule, view.seen.bound, RunSoFar((replace(unit, lost=True), again))).state
    chart = fleet_chart(jobs, schedule, view.seen.bound)
    found = [each for each in read_spans(*chart.state["spans"], *part["spans"]) if each.tier == "measured" and each.number > 0]
    assert [each.share for each in found] == [1.0, 0.0]
    assert part["spans"][0]["hatched"].startswith("lost")


def test_a_model_that_the_forecast_does_not_know_yet_is_left_out(view, monkeypatch):
    jobs, schedule = view.seen.jobs, view.seen.schedule
    strange = ScheduledUnit(len(jobs), 0, 0, 0.0, 1.0, 0.0)
    for most in (10, 0):  # one by one, and as slices
        monkeypatch.setattr("workbench.visualize.charts.fleet_chart.MOST_UNITS", most)
        part = run_section(jobs, schedule, view.seen.bound, RunSoFar((strange,))).state
        assert part["spans"][0]["firsts"][-1] == 0
        assert part["sources"]["ran slices"]["left"] == []


def test_a_run_that_was_cancelled_is_in_the_text_too(view, runner):
    training = ran(view, runner)
    training.units(5)
    training.handle.tell(Cancelled())
    ask(view, "picture", name="fleet timeline")
    assert "measured, 0 to" in view.parts["table"]["timeline"]["picture"]["text"]


def shares(slices: dict[str, list[float]]) -> list[float]:
    """The area of each share, in pixels times what the x axis is in."""
    edges = zip(slices["left"], slices["right"], slices["bottom"], slices["top"], strict=True)
    return [(right - left) * (bottom - top) for left, right, bottom, top in edges]


def test_the_exact_policy_is_solved_aside_and_refused_where_it_is_out_of_reach(view, monkeypatch):
    ask(view, "policy", "exact")
    until(lambda: not view.parts["board"]["waits"])
    assert view.seen.fleet.policy == "exact"
    assert view.seen.bound <= view.seen.schedule.makespan
    monkeypatch.setattr("workbench.multimodel.optimal_schedule.MOST_UNITS", 5)
    ask(view, "policy", "random")
    board = ask(view, "policy", "exact")
    assert board["refusal"]["message"].endswith("on 2 devices is too large to solve; the limit is 5 units.")
    assert view.fleet.policy == "random"


def until(seen, limit: float = 20.0) -> None:
    end = time.monotonic() + limit
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_each_watcher_hears_until_it_leaves(view):
    heard = []
    leave = view.watch(lambda part, _state: heard.append(part))
    ask(view, "devices", "3")
    assert set(heard) == {"board", "table", "live"}
    leave()
    count = len(heard)
    ask(view, "devices", "2")
    assert len(heard) == count


def test_the_static_picture_is_of_the_fleet_as_it_stands(view, runner):
    training = ran(view, runner)
    training.units()
    training.done()
    assert "measured, 0 to" in fleet_html(view)
    ask(view, "policy", "shortest")
    assert "measured, 0 to" not in fleet_html(view)
    ask(view, "policy", "sharded-lrtf")
    again = ran(view, runner)
    again.units(0)
    again.done()
    assert "measured, 0 to" not in fleet_html(view)


def test_the_cell_keeps_a_static_picture(fleet, times, runner):
    import workbench as wb

    board = wb.FleetBoard(fleet, times, runner)
    data, _ = board._repr_mimebundle_()
    assert data["text/plain"] == "FleetBoard(3 models, sharded-lrtf)"
    for words in ("deep", "Makespan", "lower bound"):
        assert words in data["text/html"]
    assert len(data["text/html"]) < 40_000
    assert board.times == times.for_models(fleet.models)
    board.close()


@pytest.mark.compile
def test_it_is_planned_for_hardware_that_is_not_here(view, runner):
    before = view.seen.schedule.makespan
    board = ask(view, "fleet_hardware", "8 H100")
    assert board["refusal"] is None
    assert board["devices"] == "on 2 devices of 8 H100"
    assert (board["controls"]["hardware"], board["controls"]["planned_for"][:10]) == ("8 H100", "8 devices,")
    assert figure(view, "makespan")["note"] == "from the cost model of the hardware"
    assert view.seen.schedule.makespan < before
    assert board["command"].startswith("workbench fleet simulate grid.toml")
    assert board["command"].endswith("--hardware '8 H100'")
    board = ask(view, "fleet_hardware", "8 H1000")
    assert board["refusal"]["zone"] == "fleet_hardware"
    assert (board["controls"]["hardware"], board["controls"]["wrong"]) == ("8 H1000", ["fleet_hardware"])
    assert ask(view, "devices", "9")["refusal"]["message"] == "The fleet needs 9 devices; 8 H100 has 8."
    board = ask(view, "fleet_hardware", "")
    assert (board["controls"]["hardware"], board["controls"]["planned_for"]) == ("", "attached devices")
    assert view.seen.schedule.makespan == before


def test_a_fleet_for_other_hardware_is_not_timed_here_unasked(fleet, runner):
    view = FleetView(fleet.updated(hardware="8 H100"), runner)
    view.look()
    assert view.parts["board"]["timing"]["phase"] == "idle"
    assert view.seen.source == "planned"
