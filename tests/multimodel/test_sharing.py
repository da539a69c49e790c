"""Devices that share cores, what a run that is under way is expected to take, and the solver's order as a policy."""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import FleetError
from workbench.multimodel import (
    ALL_POLICIES,
    MENU,
    Job,
    Pass,
    ScheduledUnit,
    Unit,
    chain,
    list_bound,
    lower_bound,
    policy_named,
    simulate,
)
from workbench.multimodel.fleet_text import legend_text, list_bounds, strategies_text
from workbench.multimodel.optimal_schedule import optimum, prepare_policy
from workbench.multimodel.running_forecast import predict_rest
from workbench.multimodel.simulate_fleet import FleetProgress

LRTF = policy_named("sharded-lrtf")


def sharing(name: str, units: int, seconds: float = 1.0, slowed: float = 0.5, **moved: float) -> Job:
    """Units of one shard each that are slower by `slowed` for each other device that computes."""
    return Job(name, tuple(Unit(i, Pass.FORWARD, seconds, slowed=slowed, **moved) for i in range(units)))


def test_units_are_as_long_as_the_devices_that_compute_make_them():
    schedule = simulate([sharing("a", 2), sharing("b", 4)], 2, LRTF)
    ends = {(each.model, each.unit): each.end for each in schedule.placed}
    assert ends[0, 1] == 3.0  # two of 1.5 s beside the other
    assert ends[1, 3] == 5.0  # then two of 1 s alone
    assert schedule.faults() == []


def test_a_unit_changes_its_pace_in_the_middle():
    schedule = simulate([sharing("a", 1, 1.0, slowed=1.0), sharing("b", 1, 2.0, slowed=2.0)], 2, LRTF)
    first, second = sorted(each.end for each in schedule.placed)
    assert first == pytest.approx(2.0)
    assert second == pytest.approx(3.0)  # half of it done in 2 s beside the other, the rest alone in 1 s


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 5.0), st.floats(0.0, 5.0), st.integers(1, 4)), min_size=1, max_size=5), st.integers(1, 4))
def test_bounds_hold_where_devices_share_cores(drawn, devices):
    jobs = [sharing(chr(ord("a") + i), units, seconds, slowed) for i, (seconds, slowed, units) in enumerate(drawn)]
    for policy in ALL_POLICIES:
        schedule = simulate(jobs, devices, policy, double_buffer=False)
        assert schedule.faults() == []
        assert lower_bound(jobs, devices) * (1 - 1e-9) <= schedule.makespan <= list_bound(jobs, devices) * (1 + 1e-9)


def test_a_shared_core_gives_nothing_for_a_second_device():
    jobs = [sharing(name, 3, 1.0, slowed=1.0) for name in "ab"]
    assert lower_bound(jobs, 2) == 6.0 == simulate(jobs, 2, LRTF).makespan


def test_the_table_of_ways_has_seconds_over_the_bound_in_every_row():
    jobs = [sharing("a", 3, slowed=4.0), sharing("b", 3, slowed=4.0)]
    ways = strategies_text(jobs, 2)
    found = {each[1]: (float(each[2]), float(each[3])) for each in re.finditer(r"^ (\w.*?) {2,}([\d.]+) s +([\d.]+) ", ways, re.MULTILINE)}
    assert found["list schedules"] == (22.5, 3.75)
    assert len(found) == 6
    assert all(ratio == pytest.approx(seconds / 6.0, rel=5e-3) for seconds, ratio in found.values())
    assert list_bounds(jobs, 2)[1].note.endswith(", with units slowed by devices sharing the machine's cores")
    assert list_bounds([chain("a", (1.0,))], 4)[1].note.endswith(": (2 - 1/P) = 1.750 times the bound")


def test_a_legend_says_whose_the_letters_are():
    assert legend_text(["wide", "narrow"]) == ""
    assert legend_text(["fit-8", "fit-16"]) == "a fit-8 · b fit-16"
    assert legend_text([f"m{i}" for i in range(14)]).endswith("l m11 · and so on for 2 more in their order")


def test_what_an_earlier_run_has_done_is_not_expected_again():
    jobs = [chain("a", (1.0,) * 4), chain("b", (1.0,) * 4)]
    stand = FleetProgress.at_start(jobs, 1, (4, 2))
    predicted = simulate(jobs, 1, LRTF, progress=stand)
    assert predict_rest(predicted, jobs, (), [4, 4], LRTF).makespan == predicted.makespan == 2.0


def test_what_a_unit_changes_is_on_the_host_before_it_is_changed_again():
    turn = Job("a", (Unit(0, Pass.FORWARD_LOSS, 1.0, store=0.25),), mini_batches=4)
    assert simulate([turn], 1, LRTF).makespan == 4 * 1.0 + 3 * 0.25
    forward = Job("a", (Unit(0, Pass.FORWARD, 1.0, store=0.25), Unit(0, Pass.BACKWARD, 1.0)))
    assert simulate([forward], 1, LRTF).makespan == 2.0  # the backward unit changes nothing that is on its way


def test_a_pause_lies_between_two_units_of_a_device():
    assert simulate([sharing("a", 4, slowed=0.0, pause=0.1)], 1, LRTF).makespan == pytest.approx(4.3)


def test_what_is_left_begins_where_it_stands():
    jobs = [chain("a", (1.0,) * 4), chain("b", (1.0,) * 4)]
    stand = FleetProgress(done=(3, 1), last=(4, 4), back=(5.0, 5.0), free=(5.0, 6.0))
    schedule = simulate(jobs, 2, LRTF, progress=stand)
    assert {(each.model, each.unit) for each in schedule.placed} == {(0, 3), (1, 1), (1, 2), (1, 3)}
    assert min(each.start for each in schedule.placed) == 5.0
    assert schedule.makespan == 8.0
    assert {each.device for each in simulate(jobs, 2, LRTF, progress=replace(stand, away=frozenset({0}))).placed} == {1}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_run_that_keeps_to_its_prediction_is_expected_to(share):
    jobs = [sharing("a", 8), sharing("b", 6, 0.5), sharing("c", 12, 0.25)]
    predicted = simulate(jobs, 2, LRTF)
    ran = [each for each in predicted.placed if each.end <= share * predicted.makespan]
    rest = predict_rest(predicted, jobs, ran, [each.length for each in jobs], LRTF)
    assert {(each.model, each.unit) for each in (*ran, *rest.placed)} == {(each.model, each.unit) for each in predicted.placed}
    assert rest.makespan == pytest.approx(predicted.makespan, rel=0.15)  # what runs at that moment begins anew


def test_units_that_turn_out_longer_make_the_rest_longer():
    jobs = [chain("a", (1.0, 2.0), mini_batches=3), chain("b", (1.0, 1.0), mini_batches=3)]
    predicted = simulate(jobs, 2, LRTF)
    ran = [replace(each, start=3 * each.start, end=3 * each.end) for each in predicted.placed if each.end <= 3.0]
    last = [each.length for each in jobs]
    assert predict_rest(predicted, jobs, ran, last, LRTF).makespan == pytest.approx(3 * predicted.makespan)
    stopped = predict_rest(predicted, jobs, ran, [2, last[1]], LRTF)
    assert stopped.makespan == pytest.approx(18.0)
    assert predict_rest(predicted, jobs, predicted.placed, last, LRTF).makespan == predicted.makespan


def test_a_lost_unit_is_done_again():
    jobs = [chain("a", (1.0,) * 3)]
    ran = [ScheduledUnit(0, 0, 0, 0.0, 1.0, 0.0), ScheduledUnit(0, 1, 0, 1.0, 1.5, 1.0, lost=True)]
    assert predict_rest(simulate(jobs, 1, LRTF), jobs, ran, [3], LRTF).makespan == pytest.approx(3.5)


def test_the_exact_policy_follows_the_solver():
    jobs = [chain(name, (1.0,) * units) for name, units in zip("abc", (4, 4, 8), strict=True)]
    policy = prepare_policy(policy_named("exact"), jobs, 2)
    assert simulate(jobs, 2, policy, double_buffer=False).makespan == 8.0 == optimum(jobs, 2).schedule.makespan
    assert prepare_policy(LRTF, jobs, 2) is LRTF
    unknown = [*jobs, chain("later", (1.0,) * 4)]
    assert simulate(unknown, 2, policy).faults() == []


def test_the_optimum_on_shared_cores_is_between_the_bound_and_every_policy():
    jobs = [sharing("a", 3, slowed=0.3), sharing("b", 5, 0.5, slowed=0.5), sharing("c", 2, 2.0, slowed=0.1)]
    best = optimum(jobs, 2)
    assert lower_bound(jobs, 2) <= best.schedule.makespan * (1 + 1e-9)
    assert best.schedule.faults() == []
    assert math.isclose(best.bound, lower_bound(jobs, 2))
    assert best.schedule.makespan <= simulate(jobs, 2, LRTF, double_buffer=False).makespan


def test_the_menu_has_every_policy_once():
    assert [each.name for each in MENU] == [*(each.name for each in ALL_POLICIES), "exact"]
    with pytest.raises(FleetError, match="There are 0 devices"):
        optimum([chain("a", (1.0,))], 0)
