"""The hardware picker: what is chosen or typed becomes hardware, what is offered fits, and nothing typed is lost."""

import pytest

from workbench.core.mesh import Mesh
from workbench.errors import HardwareError
from workbench.hardware.axis_placement import axis_assignment_error
from workbench.hardware.catalogue import default_catalogue, parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.widgets.board.hardware_picker import (
    MOST_AXIS_ASSIGNMENTS,
    MOST_SHAPES,
    axis_assignment_menu,
    axis_assignment_state,
    axis_assignments_for,
    hardware_of,
    hardware_state,
    shape_of,
    shapes_for,
)

EIGHT = Mesh("data:4 model:2")
COLOURS = {"data": 3, "model": 5}
CHOICES = [
    ("TPU v5e", "2x4", "TPU v5e 2x4"),
    ("TPU v5e", " 4  slices of 2x4 ", "4 slices of TPU v5e 2x4"),
    ("H100", "8", "8 H100"),
    ("H100", "4 nodes of 8", "4 nodes of 8 H100"),
    ("H100", "4x8", "4 nodes of 8 H100"),
    ("CPU", "1 node of 8", "8 CPU"),
    ("H100", "4x8, node=200 Gb/s, 5 us", "4 nodes of 8 H100, node=200 Gb/s 5 us"),
    ("", "4 nodes of 8 H100, node=200 Gb/s", "4 nodes of 8 H100, node=200 Gb/s"),
    ("TPU v5e", "2x4, ici=40 GB/s", "TPU v5e 2x4, ici=40 GB/s"),
    ("TPU v5e", "TPU v5p 2x2x2", "TPU v5p 2x2x2"),
    ("", "32 nodes of 8 H100", "32 nodes of 8 H100"),
    ("TPU v5e", "", "TPU v5e 2x4"),
]
REFUSALS = [
    ("TPU v5e", "4x4x4", "has 3 sides"),
    ("H100", "8, fast", "Hardware has no option `fast`"),
    ("H100", "8, node=1 GB/s", "There is no link `node`"),
    ("TPU v5e", "big", "`big` is not a shape of TPU v5e"),
    ("H100", "9", "8 H100, not 9"),
    ("", "TPU v9 4x4", "no hardware `TPU v9`"),
    ("TPU v5e", "TPU v9 4x4", "no hardware `TPU v9`"),
    ("TPU v9", "4x4", "no hardware `TPU v9`"),
]
MESHES = ["data:4 model:2", "data:7", "data:16 model:4", "data:32 model:64", "x:3 y:5 z:2", "one:1"]


@pytest.mark.parametrize(("chip", "shape", "name"), CHOICES)
def test_a_chip_and_a_shape_name_hardware(chip, shape, name):
    assert str(hardware_of(chip, shape, EIGHT)) == name


def test_shapes_that_are_offered_keep_the_options_that_they_can_have():
    plan = Plan(build("two_layer"), "data:16", hardware=parse_hardware("4 nodes of 8 H100, node=200 Gb/s, nvlink=400 GB/s"))
    names = [each["label"] for each in hardware_state(plan, {"data": 0})["shapes"]]
    assert names[0] == "2 nodes of 8 H100, node=200 Gb/s, device=400 GB/s"
    one_node = plan.updated(mesh=Mesh("data:8"))
    assert hardware_state(one_node, {"data": 0})["shapes"][0]["label"] == "8 H100, device=400 GB/s"


def test_nothing_chosen_is_no_hardware():
    assert hardware_of("", "", EIGHT) is None


@pytest.mark.parametrize(("chip", "shape", "words"), REFUSALS)
def test_what_does_not_exist_is_refused_in_the_words_that_were_typed(chip, shape, words):
    with pytest.raises(HardwareError, match=words) as refused:
        hardware_of(chip, shape, EIGHT)
    assert refused.value.ways_out


@pytest.mark.parametrize("name", default_catalogue().entries)
@pytest.mark.parametrize("mesh", MESHES)
def test_every_shape_that_is_offered_exists_and_the_mesh_fits_it(name, mesh):
    found = shapes_for(default_catalogue().entries[name], Mesh(mesh))
    assert 1 <= len(found) <= MOST_SHAPES
    for text in found:
        hardware = parse_hardware(text)
        assert hardware.size >= Mesh(mesh).size
        assert axis_assignment_error(Mesh(mesh), hardware) is None


@pytest.mark.parametrize("text", ["TPU v5e 2x4", "4 slices of TPU v5e 16x16", "8 H100", "32 nodes of 8 H100", "TPU v3 4x4"])
def test_the_field_beside_the_chip_reads_back_as_the_same_hardware(text):
    hardware = parse_hardware(text)
    assert hardware_of(hardware.chip.name, shape_of(hardware), EIGHT) == hardware


def test_a_mesh_that_outgrew_its_hardware_is_told_with_hardware_that_fits(two_layer):
    state = hardware_state(Plan(two_layer, "data:16 model:2", hardware="TPU v5e 2x4"), COLOURS)
    assert "`data` 16 x `model` 2 = 32 devices; TPU v5e 2x4 has 8" in state["problem"]
    assert state["mends"][0]["gesture"] == {"verb": "hardware", "chip": "", "shape": "TPU v5e 4x8"}


def test_wiring_tells_links_rings_and_strides(two_layer):
    def assigned(hardware, mesh="data:4 model:2", axis_assignment=None):
        return {
            each["axis"]: each["text"]
            for each in axis_assignment_state(Plan(two_layer, mesh, hardware=hardware, axis_assignment=axis_assignment), COLOURS)
        }

    assert assigned("TPU v5e 2x4") == {"data": "y (line of 4)", "model": "x (line of 2)"}
    assert assigned("TPU v5e 16x16", "data:16 model:16") == {"data": "y (ring of 16)", "model": "x (ring of 16)"}
    assert assigned("2 nodes of 8 H100", "data:4 model:4") == {
        "data": "node (2 on a switch) + device (2 on a switch, every 4th)",
        "model": "device (4 on a switch)",
    }


@pytest.mark.parametrize("hardware", ["TPU v5p 2x2x2", "TPU v5p 2x4x1", "2 nodes of 4 H100"])
def test_wirings_that_are_offered_fit_and_differ_to_the_eye(two_layer, hardware):
    found = axis_assignments_for(EIGHT, parse_hardware(hardware))
    assert 1 <= len(found) <= MOST_AXIS_ASSIGNMENTS
    shown = {
        tuple(each["text"] for each in axis_assignment_state(Plan(two_layer, EIGHT, hardware=hardware, axis_assignment=text), COLOURS))
        for text in found
    }
    assert len(shown) == len(found)
    menu = [item["gesture"] for item in axis_assignment_menu(Plan(two_layer, EIGHT, hardware=hardware))]
    assert [gesture.get("name") for gesture in menu] == [*found[1:], None]
