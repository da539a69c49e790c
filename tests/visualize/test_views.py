"""Roofline, step, memory map, shapes, real devices; and pictures as files."""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.details import with_details
from tests.support.placements import placed
from tests.support.programs import mlp_report
from tests.support.steps import ALIVE, CURVE, KERNELS, step_report
from workbench.analysis.tier_comparison import Comparison
from workbench.core.tensor import Role
from workbench.errors import WorkbenchError
from workbench.hardware.axis_assignment_text import parse_axis_assignment
from workbench.hardware.axis_placement import device_order
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.visualize import communication, device_grid, memory_map, memory_over_step, roofline, shapes, step_time
from workbench.visualize.argument_shapes import padding
from workbench.visualize.device_grid import locate_devices
from workbench.visualize.memory_map import Tile, squarify

sizes = st.lists(st.integers(1, 10_000), min_size=1, max_size=30).map(lambda each: sorted(each, reverse=True))


@given(sizes)
def test_tiles_have_the_areas_of_their_sizes_and_fill_the_whole_without_overlap(counts):
    whole = Tile(3, 5, 80, 30)
    tiles = squarify(counts, whole)
    for count, tile in zip(counts, tiles, strict=True):
        assert tile.width * tile.height == pytest.approx(count / sum(counts) * 2400)
        assert tile.x >= 3 - 1e-6
        assert tile.y >= 5 - 1e-6
        assert tile.x + tile.width <= 83 + 1e-6
        assert tile.y + tile.height <= 35 + 1e-6
    for place, one in enumerate(tiles):
        for other in tiles[place + 1 :]:
            across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            along = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert min(across, along) < 1e-6


def test_the_memory_map_shows_all_that_is_alive_at_the_peak_by_area():
    tiles = [each for each in memory_map(step_report()).drawing.rectangles if each.subject]
    held = sum(each.bytes for each in ALIVE)
    assert {each.subject for each in tiles} == {"layers/1/mlp/dot_general", "params/layers/*/w1", "loss/exp"}
    largest = max(tiles, key=lambda each: each.width * each.height)
    assert f"{4 * 1024 / held:.1%}" in largest.title


def test_the_memory_map_of_a_moment_shows_what_is_alive_there():
    report = step_report()
    assert memory_map(report, 0).text.count("activation") == 1
    assert "at layers/0/mlp, 4.00 KiB" in memory_map(report, 0).about
    with pytest.raises(IndexError, match="7 places; 7 is out"):
        memory_map(report, 7)


def test_every_moment_of_the_step_says_under_the_pointer_what_is_held_and_opens_its_place():
    marks = [each for each in memory_over_step(step_report()).drawing.rectangles if each.opens]
    assert [each.opens for each in marks] == [str(place) for place in range(len(CURVE.paths))]
    assert marks[2].title == "loss\n8.00 KiB in total\n 2.00 KiB parameter\n 6.00 KiB activation"
    assert "shown" in memory_over_step(step_report(), chosen=4).svg


def test_what_a_real_step_keeps_at_each_place_is_as_much_as_its_curve_says():
    report = Plan(build("gpt", scan=True), "data:4 model:2", "batch:data; d_ff:model").report()
    curve = report.memory_curve
    for place in range(0, len(curve.paths), 97):
        held = sum(each.bytes for each in report.alive_at(place) if each.role is not Role.OUTPUT)
        counted = sum(counts[place] for role, counts in curve.by_role.items() if role is not Role.OUTPUT)
        assert held == counted


def test_discs_are_as_large_as_the_time_of_their_kernels_and_lie_under_the_roof():
    made = roofline(step_report())
    dots = {each.subject: each for each in made.drawing.dots}
    assert set(dots) == {each.path for each in KERNELS if each.work}
    first, second, third = (dots[each.path] for each in KERNELS[:3])
    assert first.radius >= second.radius > third.radius
    assert first.x > second.x > third.x  # the first does twice the work on as many bytes
    assert any("kernels that only move bytes" in label.text for label in made.drawing.labels)


def test_the_kernels_of_a_real_step_take_as_long_as_the_step_says():
    plan = Plan(build("gpt", scan=True), "data:4 model:2", "batch:data; d_ff:model", hardware=parse_hardware("TPU v5e 2x4"))
    report = plan.report()
    time = report.step_time
    assert time is not None
    assert sum(each.total_seconds for each in report.kernel_costs) == pytest.approx(time.compute + time.launch, rel=0.02)
    assert sum(each.flops * each.count for each in report.kernel_costs) == report.flops.per_device
    assert all(math.isfinite(each.rate) for each in report.kernel_costs)


def test_the_step_is_a_bar_of_its_parts_to_scale():
    made = step_time(step_report()).drawing
    bars = [each for each in made.rectangles if each.title and not each.hatched]
    assert [each.title.split(" ")[0] for each in bars] == ["compute-bound", "memory-bound", "launches", "exposed"]
    assert bars[0].width / bars[1].width == pytest.approx(0.9 / 0.18, rel=0.02)
    assert any(each.hatched for each in made.rectangles)


def test_without_hardware_step_and_roofline_say_so_in_one_line():
    bare = replace(mlp_report(), step_time=None)
    assert "names no hardware" in step_time(bare).text
    assert "names no hardware" in roofline(bare).text
    assert step_time(bare, Comparison(bare)).drawing.rectangles == ()


def test_communication_shows_what_is_waited_for_and_what_hides():
    made = communication(step_report())
    titles = [each.title for each in made.drawing.rectangles]
    assert "data: 2.00 µs exposed: the device is idle" in titles
    assert "data: 6.00 µs overlapped with computation" in titles
    assert "model: 12.0 µs exposed: the device is idle" in titles


def test_shapes_tell_padding_of_uneven_splits_and_of_tiles():
    assert padding(placed((9,), "a", "[x]", "x:8")) == 2 * 4 - round(9 * 4 / 8)
    assert padding(placed((8, 128), "a b", "[-, -]", "x:8"), (8, 128)) == 0
    assert padding(placed((8, 100), "a b", "[-, -]", "x:8"), (8, 128)) == 8 * 28 * 4
    assert "of it padding" in shapes(step_report()).about


def test_real_devices_are_those_of_the_wiring():
    mesh, hardware = placed((8,), "a", "[x]", "x:4 y:2").mesh, parse_hardware("TPU v5e 2x4")
    axis_assignment = parse_axis_assignment("x:y; y:x")
    find = locate_devices(mesh, hardware, axis_assignment)
    assert find is not None
    order = device_order(mesh, hardware, axis_assignment).reshape(-1).tolist()
    assert [find(device).number for device in range(8)] == order
    for device in range(8):
        places = dict(find(device).places)
        assert places["x"] * 4 + places["y"] == find(device).number


def test_hosts_are_named_where_hardware_has_nodes():
    nodes = parse_hardware("2 nodes of 8 H100")
    made = device_grid(placed((16,), "a", "[x]", "x:8 y:2"), nodes)
    assert "15 is #15 node 1 device 7" in made.text
    assert any("(#15 node 1 device 7)" in each.title for each in made.drawing.rectangles)
    bars = device_grid(placed((16,), "a", "[x]", "x:16"), nodes).drawing.rectangles
    assert [each.title for each in bars] == ["node 0, device 0 to 7", "node 1, device 0 to 7"]


@pytest.mark.parametrize(
    ("hardware", "split", "mesh", "bars"),
    [
        ("TPU v5p 4x4x8", "[data, -]", "data:16 model:8", {"x0 y1, z 0 to 7": "[300:600, :]", "x3 y3, z 0 to 7": "[4500:4800, :]"}),
        ("TPU v5p 4x4x8", "[-, model]", "data:16 model:8", {"x0 y1, z 0 to 7": "[:, 0:800] … [:, 5600:6400]"}),
        ("17 nodes of 8 H100", "[data, model]", "data:16 model:8", {"node 15, device 0 to 7": "[4500:4800, 0:800] …"}),
        (None, "[all, -]", "all:200", {"all 100, all 0 to 49": "[2400:2424, :] … [3576:3600, :]"}),
    ],
)
def test_a_map_has_every_device_of_a_large_mesh_in_its_place(hardware, split, mesh, bars):
    placement = placed((4800, 6400), "a b", split, mesh)
    drawing = device_grid(placement, hardware and parse_hardware(hardware)).drawing
    places = [each.title.partition(":")[0] for each in drawing.rectangles]
    spans = [re.fullmatch(r".* (\d+) to (\d+)", place).groups() for place in places]
    assert sum(int(last) - int(first) + 1 for first, last in spans) == placement.mesh.size
    parts = dict(zip(places, (label.text for label in drawing.labels if label.anchor == "middle"), strict=True))
    assert {place: parts[place] for place in bars} == bars


def test_a_mesh_that_does_not_fit_the_hardware_shows_no_devices_of_it():
    placement = placed((16,), "a", "[x]", "x:16")
    assert locate_devices(placement.mesh, parse_hardware("TPU v5e 2x2")) is None
    assert device_grid(placement, parse_hardware("TPU v5e 2x2")).text == device_grid(placement).text


@pytest.mark.parametrize("ending", [".svg", ".png", ".txt"])
def test_a_picture_is_saved_as_what_its_name_ends_in(tmp_path, ending):
    saved = step_time(step_report()).save(tmp_path / f"step{ending}")
    begins = {".svg": b"<svg", ".png": b"\x89PNG", ".txt": b"mlp on"}[ending]
    assert saved.read_bytes().startswith(begins)


def test_any_other_ending_is_refused_with_those_there_are(tmp_path):
    with pytest.raises(WorkbenchError, match=r"cannot be saved as `step\.gif`") as refused:
        step_time(step_report()).save(tmp_path / "step.gif")
    assert "use a name ending in .svg, .png or .txt" in str(refused.value)


def test_a_png_is_twice_as_large_as_the_picture(tmp_path):
    made = step_time(step_report())
    head = made.save(tmp_path / "step.png", ground="white").read_bytes()[16:24]
    assert (int.from_bytes(head[:4]), int.from_bytes(head[4:])) == (2 * made.drawing.width, 2 * made.drawing.height)


def test_a_place_without_an_operation_goes_by_the_one_before_it():
    curve = replace(CURVE, paths=("", "layers/1/mlp", "", "grad/loss", "", "", "optimizer/add"))
    assert [curve.operation_near(place) for place in (0, 1, 2, 5)] == ["the start", "layers/1/mlp", "layers/1/mlp", "grad/loss"]
    assert "at layers/1/mlp" in memory_map(with_details(step_report(), memory_curve=curve), 2).about
