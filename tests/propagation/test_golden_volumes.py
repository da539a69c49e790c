"""Mesh-TensorFlow's two-layer example: the volumes of its paper's table, predicted (the engine's tests count them in compiled HLO)."""

import pytest

from workbench.models import build
from workbench.public_plan import Plan

B, IO, H = 512, 1024, 4096
GOLDEN = [  # mesh, layout, all-reduced elements per device: forward y, hidden, d(hidden), dW and dV
    ("all:8", "", 0),
    ("all:8", "batch:all", 2 * IO * H),
    ("all:8", "hidden:all", B * IO),
    ("rows:2 cols:4", "batch:rows; hidden:cols", B * IO // 2 + 2 * IO * H // 4),
    ("rows:2 cols:4", "batch:rows; io:cols", 2 * (B * H // 2) + 2 * IO * H // 4),
    ("rows:2 cols:4", "io:rows; hidden:cols", 2 * (B * H // 4) + B * IO // 2),
    ("x:2 y:2 z:2", "batch:x; io:y; hidden:z", 2 * (B * H // 4) + B * IO // 4 + 2 * IO * H // 4),
]


@pytest.fixture(scope="module")
def two_layer():
    return build("two_layer")


@pytest.mark.parametrize(("mesh", "layout", "elements"), GOLDEN)
def test_the_all_reduced_elements_are_those_of_the_table(two_layer, mesh, layout, elements):
    report = Plan(two_layer, mesh, layout).report()
    assert {each.kind for each in report.collectives} <= {"all-reduce"}
    assert sum(each.total_payload for each in report.collectives) == 4 * elements


@pytest.mark.parametrize(("mesh", "layout", "elements"), GOLDEN)
def test_work_is_divided_among_the_devices_unless_an_axis_is_unused(two_layer, mesh, layout, elements):
    flops = Plan(two_layer, mesh, layout).report().flops
    assert flops.unique == 2 * (2 + 3) * B * IO * H  # forward two products; backward d(hidden), dW and dV, no dx
    assert flops.duplication == (1 if layout else 8)
