"""Golden schedules and laws of many models at once (DOMAIN 5.2; Hydra TR, figure 6 and Algorithm 2)."""

import math
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import FleetError
from workbench.multimodel import (
    ALL_POLICIES,
    Candidate,
    FleetEvent,
    Job,
    Pass,
    Unit,
    chain,
    list_bound,
    lower_bound,
    policy_named,
    simulate,
)
from workbench.multimodel.fleet_text import schedule_text
from workbench.multimodel.optimal_schedule import optimum

LRTF = policy_named("sharded-lrtf")


def models(*units: tuple[float, ...]) -> list[Job]:
    return [chain(chr(ord("a") + i), tuple(map(float, each))) for i, each in enumerate(units)]


def of_length(*lengths: int) -> list[Job]:
    return models(*((1.0,) * each for each in lengths))


GOLDEN = [  # jobs, devices, lower bound, LRTF, first in list, shortest first
    (of_length(4, 4, 4), 2, 6, 6, 8, 8),
    (of_length(4, 4, 8), 2, 8, 8, 12, 12),
    (of_length(2, 6, 6, 10), 3, 10, 10, 12, 12),
    (of_length(5, 5, 5, 5, 10), 2, 15, 15, 20, 20),
    (models((2,) * 4, (1,) * 6, (3,) * 3, (1,) * 2), 2, 12.5, 13, 15, 15),
    (of_length(4, 4, 4, 4), 8, 4, 4, 4, 4),
]

jobs_of_all_kinds = st.lists(st.lists(st.floats(0.1, 9.0), min_size=1, max_size=8).map(tuple), min_size=1, max_size=6).map(
    lambda units: models(*units)
)


@pytest.mark.parametrize(("jobs", "devices", "bound", "lrtf", "first", "shortest"), GOLDEN)
def test_golden_schedules(jobs, devices, bound, lrtf, first, shortest):
    found = {
        name: simulate(jobs, devices, policy_named(name), double_buffer=False).makespan
        for name in ("sharded-lrtf", "first-in-list", "shortest")
    }
    assert lower_bound(jobs, devices) == bound
    assert found == {"sharded-lrtf": lrtf, "first-in-list": first, "shortest": shortest}


@pytest.mark.parametrize(("jobs", "devices"), [golden[:2] for golden in GOLDEN])
def test_the_optimum_is_proven_and_no_policy_beats_it(jobs, devices):
    best = optimum(jobs, devices)
    assert best.proven
    assert best.schedule.faults() == []
    for policy in ALL_POLICIES:
        assert best.schedule.makespan <= simulate(jobs, devices, policy, double_buffer=False).makespan + 1e-9


@settings(max_examples=60, deadline=None)
@given(jobs_of_all_kinds, st.integers(1, 5), st.booleans())
def test_every_policy_keeps_the_laws(jobs, devices, double_buffer):
    for policy in ALL_POLICIES:
        schedule = simulate(jobs, devices, policy, double_buffer=double_buffer)
        assert schedule.faults() == []
        assert len(schedule.placed) == sum(each.length for each in jobs)
        assert schedule.makespan >= lower_bound(jobs, devices) - 1e-9
        if not double_buffer:  # a buffered unit is promised to one device, so another may wait for it
            assert schedule.makespan <= list_bound(jobs, devices) + 1e-9


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.5, 9.0), min_size=1, max_size=3), st.integers(1, 3), st.integers(2, 5))
def test_with_fewer_models_than_devices_the_longest_model_is_the_makespan(units, count, extra):
    jobs = models(*([tuple(units)] * count))
    for policy in ALL_POLICIES:
        assert math.isclose(simulate(jobs, count + extra, policy).makespan, jobs[0].seconds)


def test_speed_up_over_one_at_a_time_is_at_most_models_or_devices():
    for count in range(1, 9):
        jobs = of_length(*[16] * count)
        assert sum(each.seconds for each in jobs) / simulate(jobs, 4, LRTF).makespan == pytest.approx(min(count, 4), rel=0.15)


@pytest.mark.parametrize("policy", ALL_POLICIES, ids=lambda each: each.name)
def test_the_diagram_in_a_policy_s_docstring_is_what_it_does(policy):
    drawn = re.findall(r"^ *(?:.* )?(\d) \| ((?:\w )*\w)", type(policy).__doc__, re.MULTILINE)  # Python 3.13 takes the indentation out
    if policy.name == "random":
        assert not drawn
        return
    lengths = [4, 4, 8] if "4, 4 and 8" in type(policy).__doc__ else [4, 4, 4]
    jobs = of_length(*lengths)
    schedule = simulate(jobs, 2, policy, double_buffer=False)
    rows = [row.partition(" | ")[2].rstrip(" .") for row in schedule_text(schedule, "abc", int(schedule.makespan)).splitlines()]
    assert [row for _, row in drawn] == rows


def test_a_transfer_is_hidden_behind_another_model_s_unit_only_with_a_buffer():
    units = tuple(Unit(i, Pass.FORWARD, seconds=2.0, load=1.0, store=0.5, carry=0.25) for i in range(4))
    jobs = [Job("a", units), Job("b", units)]
    waits = simulate(jobs, 1, LRTF, double_buffer=False)
    assert waits.makespan == pytest.approx(8 * (1.0 + 0.25 + 2.0 + 0.5) - 0.5)  # the last store is after the last unit
    hides = simulate(jobs, 1, LRTF)
    assert hides.makespan == pytest.approx(1.25 + 8 * 2.0)


def test_a_unit_longer_to_bring_in_than_to_compute_costs_the_transfer():
    units = tuple(Unit(i, Pass.FORWARD, seconds=1.0, load=3.0) for i in range(4))
    schedule = simulate([Job("a", units), Job("b", units)], 1, LRTF)
    assert schedule.makespan == pytest.approx(8 * 3.0 + 1.0)


def test_the_successor_on_the_same_device_keeps_its_shard_and_its_activations():
    turn = (Unit(0, Pass.FORWARD, 1.0, load=1.0, carry=1.0), Unit(0, Pass.BACKWARD, 1.0, load=1.0, carry=1.0))
    assert simulate([Job("a", turn)], 1, LRTF).makespan == pytest.approx(2.0 + 2.0)


def test_a_model_that_stops_early_speeds_up_the_rest():
    jobs = of_length(6, 6, 6)
    whole, stopped = simulate(jobs, 1, LRTF), simulate(jobs, 1, LRTF, events=[FleetEvent(3.0, "model stops", 0)])
    assert stopped.faults() == []
    assert stopped.makespan == whole.makespan - (6 - sum(each.model == 0 for each in stopped.placed))


def test_a_model_that_comes_later_is_trained_whole():
    schedule = simulate(of_length(4, 4), 1, LRTF, events=[FleetEvent(2.5, "model comes", 1)])
    assert schedule.faults() == []
    assert min(each.start for each in schedule.placed if each.model == 1) >= 2.5
    assert schedule.makespan == 8.0


def test_a_device_that_leaves_loses_one_unit_and_another_repeats_it():
    schedule = simulate(of_length(4, 4), 2, LRTF, double_buffer=False, events=[FleetEvent(1.5, "device leaves", 1)])
    lost = [each for each in schedule.placed if each.lost]
    assert [(each.device, each.end) for each in lost] == [(1, 1.5)]
    assert schedule.faults() == []
    assert {each.device for each in schedule.placed if each.start > 1.5} == {0}
    assert len(schedule.placed) == 8 + 1


def test_a_device_that_returns_works_again():
    events = [FleetEvent(1.0, "device leaves", 1), FleetEvent(3.0, "device returns", 1)]
    schedule = simulate(of_length(6, 6), 2, LRTF, events=events)
    assert schedule.faults() == []
    assert any(each.device == 1 and each.start >= 3.0 for each in schedule.placed)


def test_equals_keep_locality():
    choice = LRTF.choose([Candidate(2, 5.0, 1.0, here=True), Candidate(0, 5.0, 1.0), Candidate(1, 4.0, 1.0)], 0)
    assert choice.model == 2


def test_a_decision_is_made_in_less_than_a_millisecond():
    jobs = of_length(*[20] * 64)
    start = time.perf_counter()
    schedule = simulate(jobs, 8, LRTF)
    assert (time.perf_counter() - start) / schedule.decisions < 0.02  # the goal is 1 ms; benchmarks/many_models.py measures it


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: simulate([], 2, LRTF), "The fleet has no models."),
        (lambda: simulate([*of_length(2), *of_length(2)], 2, LRTF), "2 models are named `a`."),
        (lambda: simulate(of_length(2), 0, LRTF), "There are 0 devices to train on."),
        (lambda: simulate(of_length(2), 40_960, LRTF), "40,960 devices are 10 times the limit of a fleet simulation, 4,096."),
        (lambda: policy_named("sharded-lrft"), "There is no policy `sharded-lrft`"),
        (lambda: Job("a", ()), "Model `a` has 0 units, 1 mini-batches, 1 epochs."),
        (lambda: chain("a", (-1.0,)), "A unit of model `a` has a negative duration."),
        (
            lambda: simulate(of_length(2), 1, LRTF, events=[FleetEvent(0.0, "model stops", 7)]),
            "`model stops 7` is not a valid event.",
        ),
        (lambda: optimum(of_length(5000), 2), "The exact optimum of 5,000 units on 2 devices is too large to solve"),
    ],
)
def test_what_cannot_be_is_said(make, message):
    with pytest.raises(FleetError, match=re.escape(message)):
        make()
