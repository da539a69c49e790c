"""A live run lays the mesh over the devices as the plan wires it."""

from dataclasses import dataclass

import pytest

from tests.support.run_programs import plan
from workbench.engine.spmd.device_mesh import device_mesh, row_major
from workbench.hardware.axis_assignment_text import parse_axis_assignment
from workbench.hardware.catalogue import parse_hardware

TWO_NODES = parse_hardware("2 nodes of 4 CPU")


def ids(mesh):
    return [[device.id for device in row] for row in mesh.devices]


def test_devices_lie_in_the_order_of_the_wiring():
    across = plan(mesh="data:4 model:2").updated(hardware=TWO_NODES, axis_assignment=parse_axis_assignment("data:device; model:node"))
    assert ids(device_mesh(across)) == [[0, 4], [1, 5], [2, 6], [3, 7]]


@pytest.mark.parametrize("hardware", [None, TWO_NODES, parse_hardware("TPU v5e 2x4"), parse_hardware("16 CPU")], ids=str)
def test_other_hardware_leaves_the_order_to_jax(hardware):
    assert ids(device_mesh(plan(mesh="data:4 model:2").updated(hardware=hardware))) == [[0, 1], [2, 3], [4, 5], [6, 7]]


@dataclass(frozen=True)
class Chip:
    coords: tuple[int, int, int]
    core_on_chip: int = 0
    slice_index: int = 0


def test_chips_of_a_torus_are_numbered_row_major_slice_by_slice():
    chips = [Chip((x, y, 0), slice_index=each) for y in range(2) for x in range(2) for each in (1, 0)]
    places = [(chip.slice_index, *chip.coords[:2]) for chip in row_major(chips)]
    assert places == sorted(places)
