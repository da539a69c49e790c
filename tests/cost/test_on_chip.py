"""Memory on the chip: what stays there takes none of the device's, and what does not fit, or waits for long, does."""

import numpy as np
import pytest

from workbench.cost.on_chip_memory import Interval, OnChip
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan

pytestmark = pytest.mark.compile

TPUS = ("TPU v3 2x2", "TPU v4 2x2x2", "TPU v5e 2x4", "TPU v5p 2x2x2", "TPU v6e 2x4")
MIB = 1 << 20


def chip(capacity=100 * MIB, seconds=1.0, positions=10):
    """Ten positions of a second each; copying takes a second a MiB."""
    passed = np.arange(1, positions + 1) * seconds
    return OnChip(capacity, 1 / MIB, passed - seconds, passed, np.array([np.inf, 0.0, np.inf]), (0, 1), {})


def test_what_fits_all_its_life_stays():
    assert chip().select_kept([Interval(0, (0, 2), 40 * MIB, (0,)), Interval(0, (1, 3), 40 * MIB, (0,))]) == [True, True]


def test_of_two_that_do_not_fit_together_the_one_worth_more_stays():
    twice, once = Interval(0, (0, 1, 2), 60 * MIB, (0, 0)), Interval(0, (1, 3), 60 * MIB, (0,))
    assert chip().select_kept([once, twice]) == [False, True]
    in_loop = once._replace(region=1)
    assert chip().select_kept([in_loop, twice]) == [True, False]


def test_two_that_never_meet_share_a_place():
    assert chip().select_kept([Interval(0, (0, 2), 60 * MIB, (0,)), Interval(0, (3, 5), 60 * MIB, (0,))]) == [True, True]


TOO_LARGE = Interval(0, (0, 9), 200 * MIB, (0,))


def test_all_stays_where_all_fits_at_once():
    busy, waiting = Interval(0, (0, 1), 60 * MIB, (1,)), Interval(0, (2, 9), 60 * MIB, (0,))
    assert chip(seconds=1000.0).select_kept([busy, waiting]) == [True, True]
    assert chip(seconds=1000.0).select_kept([busy, waiting, TOO_LARGE]) == [False, False, False]


def test_what_waits_for_longer_than_copying_it_is_worth_goes():
    waiting = Interval(0, (0, 9), MIB, (0,))
    assert chip().select_kept([waiting, TOO_LARGE]) == [True, False]
    assert chip(seconds=100.0).select_kept([waiting, TOO_LARGE]) == [False, False]


def test_what_waits_for_long_stays_in_the_room_that_is_left_unless_far_more_is_alive():
    busy, waiting = Interval(0, (3, 5), 65 * MIB, (0,)), Interval(0, (0, 9), 45 * MIB, (0,))
    assert chip(seconds=1000.0).select_kept([waiting, busy._replace(places=(3, 4), kernels=(1,))]) == [True, False]
    assert chip(seconds=0.001).select_kept([busy, waiting]) == [True, False]
    assert chip(seconds=1000.0).select_kept([waiting, TOO_LARGE]) == [False, False]


def test_what_only_busy_products_read_gains_nothing_there():
    assert chip().select_kept([Interval(0, (0, 1), MIB, (1,)), TOO_LARGE]) == [False, False]


@pytest.mark.parametrize("hardware", TPUS)
@pytest.mark.parametrize("arguments", [{}, {"scan": False}, {"remat": True}])
def test_what_is_alive_at_the_peak_makes_the_peak(hardware, arguments):
    plan = Plan(build("gpt", **arguments), "data:4 model:2", "batch:data; d_ff:model; heads:model", hardware=parse_hardware(hardware))
    report = plan.report()
    assert sum(each.bytes for each in report.alive) == report.memory.peak


def test_memory_on_the_chip_makes_the_peak_no_higher():
    plan = Plan(build("gpt"), "data:8", "batch:data")
    without, beside = (plan.updated(hardware=parse_hardware(name)).report() for name in ("TPU v3 2x2", "TPU v4 2x2x2"))
    assert beside.memory.peak < without.memory.peak
