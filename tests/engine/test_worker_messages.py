"""What a worker tells and is told is read back as it was written."""

import math
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fleets import three_models, times_of
from tests.support.scripted import compiled, measurement
from workbench import Plan
from workbench.core.child_process import decode_message, encode_message
from workbench.engine.worker.worker_main import DONE, WORK, _function
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.models.registry import build
from workbench.multimodel import FleetSchedule, Job, Pass, Unit
from workbench.multimodel.fleet_forecast import forecast
from workbench.multimodel.fleet_measurement import FleetMeasurement
from workbench.multimodel.training_events import (
    AddModel,
    FleetCommand,
    TrainingDone,
    TrainingEvent,
    UnitDone,
)
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.run_events import RUN_ENDINGS, CompileDone, Failed, RunDone, RunEvent
from workbench.search.search_messages import ExplainRequest, PlanExplanation, SearchCommand, SearchEvent, SearchRequest, SearchUpdate

PLAN = Plan(build("two_layer"), "data:2", "batch:data")
RESULTS = (RunDone, CompileDone, TrainingDone)
SEARCHES = (SearchRequest, ExplainRequest, SearchUpdate, PlanExplanation)  # `test_search_process` sends them
MESSAGES = {each for union in (RunEvent, TrainingEvent, SearchEvent, FleetCommand, SearchCommand) for each in get_args(union)}
PLAIN = sorted(MESSAGES - {*RESULTS, *SEARCHES}, key=str)

finite = st.floats(allow_nan=False, allow_infinity=False)
seconds = st.floats(0, 1e6)
units = st.builds(Unit, st.integers(0, 9), st.sampled_from(Pass), *[seconds] * 6)
jobs = st.builds(Job, st.text(max_size=5), st.lists(units, min_size=1, max_size=3).map(tuple), st.integers(1, 9), st.integers(1, 9))
st.register_type_strategy(float, finite)
st.register_type_strategy(Job, jobs)
st.register_type_strategy(Hardware, st.sampled_from(["TPU v5e 2x4", "8 H100", "2 nodes of 8 A100"]).map(parse_hardware))


@pytest.fixture(autouse=True, scope="module")
def strategies_end_here():
    yield
    st.register_type_strategy(float, st.floats())


def test_every_kind_of_work_has_an_event_with_its_result():
    assert WORK.keys() == DONE.keys()
    assert {_function(name) for name in DONE.values()} < MESSAGES
    assert {*RUN_ENDINGS} < MESSAGES


@given(st.sampled_from(PLAIN).flatmap(st.from_type))
def test_a_message_is_read_back_as_it_was_written(message):
    line = encode_message(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    found = decode_message(line)
    assert found == message
    assert [type(getattr(found, each.name)) for each in fields(found)] == [type(getattr(message, each.name)) for each in fields(message)]


def test_a_result_is_read_back_as_it_was_written():
    seen = forecast(three_models())
    schedule = FleetSchedule(2, seen.schedule.placed[:5])
    trained = FleetMeasurement(("a",), "sharded-lrtf", times_of(seen).jobs, schedule, schedule, 1.0, {"a": (0.5,)}, (1,), "cpu", None)
    results = {Measurement: measurement(PLAN), Compiled: compiled(PLAN), FleetMeasurement: trained}
    for event in RESULTS:
        ((name, hint),) = get_type_hints(event).items()
        assert decode_message(encode_message(event(results[hint]))) == event(**{name: results[hint]})


def test_a_loss_that_is_no_number_arrives():
    unit = UnitDone("a", 1, 2, math.nan, forecast(three_models()).schedule.placed[0])
    assert math.isnan(decode_message(encode_message(unit)).loss)


def test_a_failure_says_what_its_error_says():
    error = WorkbenchError("It does not fit.", ["make the batch smaller"])
    assert Failed.of(error).text == str(error)
    assert repr(AddModel("a", b"payload")) == "AddModel(model='a')"
