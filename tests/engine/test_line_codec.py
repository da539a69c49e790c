"""What a worker tells and is told is read back as it was written; what cannot be read is refused in words."""

import json
import math
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fleets import three_models, times_of
from tests.support.scripted import compiled, measurement
from workbench import Plan
from workbench.engine.worker.line_codec import COMMANDS, EVENTS, LineCodec
from workbench.engine.worker.worker_main import DONE, WORK
from workbench.errors import EngineError, WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.models.registry import build
from workbench.multimodel import FleetSchedule, Job, Pass, Unit
from workbench.multimodel.fleet_forecast import forecast
from workbench.multimodel.fleet_measurement import FleetMeasurement
from workbench.multimodel.training_events import (
    FLEET_COMMANDS,
    TRAINING_EVENTS,
    AddModel,
    CommandDone,
    FleetCommand,
    StopModel,
    TrainingDone,
    TrainingEvent,
    UnitDone,
)
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.run_events import RUN_ENDINGS, RUN_EVENTS, CompileDone, Failed, Progress, RunDone, RunEvent
from workbench.search.search_messages import (
    SEARCH_COMMANDS,
    AskExplanation,
    AskSearch,
    PlanExplained,
    SearchCommand,
    SearchUpdated,
)

PLAN = Plan(build("two_layer"), "data:2", "batch:data")
RESULTS = (RunDone, CompileDone, TrainingDone)  # whose fields are pickles
SEARCHES = (AskSearch, AskExplanation, SearchUpdated, PlanExplained)  # the same; `test_search_process` sends them
PLAIN = [each for each in (*EVENTS.kinds.values(), *COMMANDS.kinds.values()) if each not in (*RESULTS, *SEARCHES)]

finite = st.floats(allow_nan=False, allow_infinity=False)
seconds = st.floats(0, 1e6)
units = st.builds(Unit, st.integers(0, 9), st.sampled_from(Pass), *[seconds] * 6)
jobs = st.builds(Job, st.text(max_size=5), st.lists(units, min_size=1, max_size=3).map(tuple), st.integers(1, 9), st.integers(1, 9))
st.register_type_strategy(float, finite)
st.register_type_strategy(Job, jobs)
st.register_type_strategy(Hardware, st.sampled_from(["TPU v5e 2x4", "8 H100", "2 nodes of 8 A100"]).map(parse_hardware))


def codec_of(message: object) -> LineCodec:
    return COMMANDS if type(message) in COMMANDS.kinds.values() else EVENTS


@pytest.fixture(autouse=True, scope="module")
def strategies_end_here():
    yield
    st.register_type_strategy(float, st.floats())


STREAMS = [(RunEvent, RUN_EVENTS), (TrainingEvent, TRAINING_EVENTS), (FleetCommand, FLEET_COMMANDS), (SearchCommand, SEARCH_COMMANDS)]


@pytest.mark.parametrize(("union", "kinds"), STREAMS)
def test_every_member_of_a_stream_has_its_kind_on_the_wire(union, kinds):
    assert set(get_args(union)) == set(kinds.values())
    assert len(kinds) == len(set(kinds.values()))


def test_streams_share_a_kind_only_for_the_same_class():
    assert all(TRAINING_EVENTS[each] is RUN_EVENTS[each] for each in TRAINING_EVENTS.keys() & RUN_EVENTS.keys())
    assert WORK.keys() == DONE.keys()
    assert set(RUN_ENDINGS) < set(RUN_EVENTS.values())


@given(st.sampled_from(PLAIN).flatmap(st.from_type))
def test_a_message_is_read_back_as_it_was_written(message):
    line = codec_of(message).encode(message)
    assert line.count("\n") == 1
    assert line.endswith("\n")
    found = codec_of(message).decode(line)
    assert found == message
    assert [type(getattr(found, each.name)) for each in fields(found)] == [type(getattr(message, each.name)) for each in fields(message)]


def test_a_result_is_read_back_as_it_was_written():
    seen = forecast(three_models())
    schedule = FleetSchedule(2, seen.schedule.placed[:5])
    trained = FleetMeasurement(("a",), "sharded-lrtf", times_of(seen).jobs, schedule, schedule, 1.0, {"a": (0.5,)}, (1,), "cpu", None)
    results = {Measurement: measurement(PLAN), Compiled: compiled(PLAN), FleetMeasurement: trained}
    for event in RESULTS:
        ((name, hint),) = get_type_hints(event).items()
        assert EVENTS.decode(EVENTS.encode(event(results[hint]))) == event(**{name: results[hint]})


def test_a_loss_that_is_no_number_arrives():
    unit = UnitDone("a", 1, 2, math.nan, forecast(three_models()).schedule.placed[0])
    assert math.isnan(EVENTS.decode(EVENTS.encode(unit)).loss)


def test_the_wire_says_kind_and_fields():
    assert json.loads(EVENTS.encode(Progress("compiling", 0.5))) == {
        "event": "progress",
        "stage": "compiling",
        "fraction": 0.5,
        "elapsed": None,
        "model": "",
    }
    assert json.loads(COMMANDS.encode(StopModel("a"))) == {"command": "stop", "model": "a"}
    assert json.loads(EVENTS.encode(CommandDone(StopModel("a"), 1, 2)))["command"] == ["StopModel", "a"]


@pytest.mark.parametrize(
    ("codec", "line", "message"),
    [
        (COMMANDS, '{"command": "x"}', "There is no command `x`; there are `add`, `stop`, `leave`, `return`, `search`"),
        (COMMANDS, "{}", "There is no command `None`; there are `add`, `stop`, `leave`, `return`, `search`"),
        (COMMANDS, '{"command": "stop"}', "The command `stop` has the fields `model`; there came none."),
        (COMMANDS, '{"command": "leave", "device": "0"}', "`value` is '0'; it should be of type `int`."),
        (COMMANDS, "[1]", "`command` is [1]; it should be a JSON object."),
        (EVENTS, '{"event": "cancelled", "of": 3}', "The event `cancelled` has the fields none; there came `of`."),
        (EVENTS, '{"event": "command done", "command": ["Halt"], "done": null, "of": null}', "There is no record `Halt`; there are"),
        (EVENTS, "{", "A line that should be one event is not JSON: "),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(codec, line, message):
    with pytest.raises(EngineError) as caught:
        codec.decode(line)
    assert caught.value.message.startswith(message)


def test_a_failure_says_what_its_error_says():
    error = WorkbenchError("It does not fit.", ["make the batch smaller"])
    assert Failed.of(error).text == str(error)
    assert repr(AddModel("a", "payload")) == "AddModel(model='a')"
