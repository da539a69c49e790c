"""Schedules of many models as pictures: one row a device, a colour a model, predicted above measured, to one scale."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from workbench.multimodel import FleetEvent, Job, Pass, Unit, lower_bound, policy_named, simulate
from workbench.multimodel.fleet_measurement import FleetMeasurement
from workbench.units import format_seconds
from workbench.visualize import fleet
from workbench.visualize.draw.palette import AXES, WARNING


def job(name: str, seconds: float, batches: int) -> Job:
    kinds = ((0, Pass.FORWARD, 1), (1, Pass.FORWARD_LOSS, 2), (0, Pass.BACKWARD, 2))
    units = tuple(Unit(shard, kind, factor * seconds, 0.1 * seconds, 0.05 * seconds) for shard, kind, factor in kinds)
    return Job(name, units, batches)


JOBS = (job("wide", 0.02, 8), job("narrow", 0.01, 6), job("deep", 0.03, 3))
LRTF = policy_named("sharded-lrtf")
PREDICTED = simulate(JOBS, 2, LRTF)
GONE = (FleetEvent(0.3, "device leaves", 1), FleetEvent(0.35, "device returns", 1))
RAN = simulate(JOBS, 2, LRTF, double_buffer=False, events=GONE)
MEASURED = FleetMeasurement(("wide", "narrow", "deep"), LRTF.name, JOBS, RAN, PREDICTED, lower_bound(JOBS, 2), {}, (2, 2, 2), "cpu", None)
BOTH = fleet(MEASURED)


def units(picture, name):
    return [each for each in picture.drawing.rectangles if f": {name}, " in each.title and not each.hatched]


def test_the_text_twin_is_worth_reading(golden):
    golden("fleet.txt", BOTH.text)


def test_each_unit_is_a_box_in_its_models_colour_and_as_long_as_it_took():
    for number, each in enumerate(JOBS):
        boxes = units(BOTH, each.name)
        assert len(boxes) == sum(unit.model == number for unit in (*PREDICTED.placed, *RAN.placed))
        assert {box.fill for box in boxes} == {AXES[number]}
    forward, backward = units(fleet(PREDICTED, JOBS), "deep")[::2][:2]
    assert forward.title == "30.0 ms: deep, forward of shard 0, mini-batch 1"
    assert backward.title == "60.0 ms: deep, backward of shard 0, mini-batch 1"
    assert backward.width / forward.width == pytest.approx(2, rel=0.01)
    assert forward.alpha < backward.alpha


def test_a_lost_unit_is_hatched_and_the_bound_is_drawn():
    assert sum(each.hatched for each in BOTH.drawing.rectangles) == sum(unit.lost for unit in RAN.placed) == 1
    assert not any(each.hatched for each in fleet(PREDICTED, JOBS).drawing.rectangles)
    (bound,) = BOTH.drawing.lines
    assert (bound.colour, bound.dashed) == (WARNING, True)


def test_the_bound_of_a_resumed_run_counts_only_what_was_left():
    resumed_units = (12, 6, 3)
    bound = lower_bound(JOBS, 2, resumed_units)
    resumed = fleet(replace(MEASURED, bound=bound, resumed_units=resumed_units))
    assert f"; lower bound {format_seconds(bound)}" in resumed.text
    scale = 760 / max(PREDICTED.makespan, RAN.makespan)
    ends = [picture.drawing.lines[0].points[0][0] for picture in (BOTH, resumed)]
    assert ends[0] - ends[1] == pytest.approx((lower_bound(JOBS, 2) - bound) * scale, abs=0.2)


def test_transfers_are_thin_and_end_where_the_unit_begins():
    picture = fleet(PREDICTED, JOBS)
    moving = [each for each in picture.drawing.rectangles if "brought in" in each.title]
    begins = [each.x for name in ("wide", "narrow", "deep") for each in units(picture, name)]
    assert moving
    assert all(min(abs(each.x + each.width - begin) for begin in begins) < 0.5 for each in moving)
    assert max(each.height for each in moving) < 5


def test_many_models_are_named_as_far_as_there_is_room():
    jobs = tuple(job(f"a model with a long name {i}", 0.01, 1) for i in range(30))
    picture = fleet(simulate(jobs, 4, LRTF), jobs)
    assert any(label.text.startswith("and ") and label.text.endswith(" more") for label in picture.drawing.labels)
    assert ET.fromstring(picture.svg).tag.endswith("svg")
    assert picture.drawing.width < 960


def test_one_model_on_one_device_is_told_so():
    jobs = JOBS[:1]
    assert fleet(simulate(jobs, 1, LRTF), jobs).text.startswith("1 model on 1 device: ")
