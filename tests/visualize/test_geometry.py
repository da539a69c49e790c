"""What each device holds: laws over random placements, the examples of Mesh-TensorFlow's README, and JAX's own answer."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from tests.support.placements import image_batch, placed, placements
from tests.support.strategies import meshes
from workbench.reports.placement import Placement
from workbench.visualize.draw.bars import stack_bars
from workbench.visualize.draw.device_shards import DeviceShard, UnitRect, count_parts, elide_positions, grid, part_of, projection
from workbench.visualize.draw.drawing_marks import Label, Polyline, Rectangle, fit_drawing, text_width

SPLITS = [  # shape, sharding, mesh; all even, on eight devices
    ((16, 8), "[-, -]", "data:8"),
    ((16, 8), "[data, model]", "data:4 model:2"),
    ((16, 8), "[model, data]", "data:4 model:2"),
    ((16, 8), "[-, model+data]", "data:4 model:2"),
    ((16, 8), "[data+model, -]", "data:4 model:2"),
    ((4, 2, 6, 3), "[z, x, y, -]", "x:2 y:2 z:2"),
    ((4, 2, 6, 3), "[z+x, -, -, -]", "x:2 y:2 z:2"),
    ((), "[]", "x:8"),
]
TABLE = [  # layout of the README, device, what it holds, its copies
    ("[-, -, -, -]", 5, "[:, :, :, :]", 8),
    ("[processor_cols, -, -, -]", 3, "[75:100, :, :, :]", 2),
    ("[processor_cols, -, -, -]", 7, "[75:100, :, :, :]", 2),
    ("[-, processor_rows, processor_cols, -]", 1, "[:, 0:14, 7:14, :]", 1),
]


def parts(placement: Placement) -> list[DeviceShard]:
    return [part_of(placement, device) for device in range(placement.mesh.size)]


def area(box: UnitRect) -> float:
    return (box.right - box.left) * (box.bottom - box.top)


@given(placements())
def test_the_different_parts_tile_the_tensor(placement):
    covered = np.zeros(placement.tensor.shape, int)
    for part in parts(placement):
        if not part.is_copy:
            covered[tuple(slice(*each) for each in part.ranges)] += 1
    assert (covered == 1).all()


@given(placements())
def test_each_part_is_held_by_as_many_devices_as_there_are_replicas(placement):
    held = Counter(part.first for part in parts(placement))
    assert len(held) == count_parts(placement)
    assert set(held.values()) == {placement.sharding.replicas(placement.mesh)}


@given(placements())
def test_a_copy_holds_what_a_device_with_a_lower_number_holds(placement):
    for part in parts(placement):
        original = part_of(placement, part.first)
        assert original.ranges == part.ranges
        assert not original.is_copy
        assert part.first <= part.device


@given(placements())
def test_no_device_holds_more_than_its_local_shape(placement):
    for part in parts(placement):
        assert all(stop - start <= local for (start, stop), local in zip(part.ranges, placement.local_shape, strict=True))


@given(placements())
def test_the_boxes_of_the_parts_tile_the_square(placement):
    view = projection(placement)
    boxes = [(view.box(part), part) for part in parts(placement) if not part.is_copy]
    assert math.isclose(sum(area(box) for box, _ in boxes), 1)
    for box, part in boxes:
        assert math.isclose(area(box), math.prod(stop - start for start, stop in part.ranges) / placement.tensor.elements, abs_tol=1e-12)
        assert min(box.left, box.top) >= 0
        assert max(box.right, box.bottom) <= 1 + 1e-12
    for (one, _), (other, _) in itertools.combinations(boxes, 2):
        width = min(one.right, other.right) - max(one.left, other.left)
        height = min(one.bottom, other.bottom) - max(one.top, other.top)
        assert min(width, height) <= 1e-12


@given(placements())
@example(placed((1, 5, 3), "batch seq d_model", "[data, model, pipe]", "data:2 model:3 pipe:2"))  # a third of two fifths
def test_a_part_is_what_its_bands_share(placement):
    view = projection(placement)
    for part in parts(placement):
        boxes = [box for _, box in view.bands(part)] or [UnitRect(0, 0, 1, 1)]
        shared = (max(b.left for b in boxes), max(b.top for b in boxes), min(b.right for b in boxes), min(b.bottom for b in boxes))
        box = view.box(part)
        assert shared == (box.left, box.top, box.right, box.bottom)


@pytest.mark.parametrize(("shape", "sharding", "mesh"), SPLITS)
def test_jax_puts_the_same_parts_on_the_same_devices(shape, sharding, mesh):
    placement = placed(shape, " ".join("abcd"[: len(shape)]), sharding, mesh)
    devices = jax.make_mesh(placement.mesh.sizes, placement.mesh.names)
    indices = NamedSharding(devices, PartitionSpec(*placement.sharding.dims)).devices_indices_map(shape)
    theirs = [tuple(each.indices(size)[:2] for each, size in zip(indices[at], shape, strict=True)) for at in devices.devices.flat]
    assert [part.ranges for part in parts(placement)] == theirs


@pytest.mark.parametrize(("sharding", "device", "index", "copies"), TABLE)
def test_the_examples_of_mesh_tensorflow_hold(sharding, device, index, copies):
    placement = image_batch(sharding)
    assert part_of(placement, device).index == index
    assert placement.mesh.size // count_parts(placement) == copies


def test_a_sub_axis_picks_its_own_digit_of_the_device_number():
    placement = placed((8, 4), "a b", "[x:(2)2, x:(1)2]", "x:8")  # device = 4 i + 2 j + k: `a` by j, `b` by i
    assert [part.index for part in parts(placement)][::2] == ["[0:4, 0:2]", "[4:8, 0:2]", "[0:4, 2:4]", "[4:8, 2:4]"]
    assert [part.first for part in parts(placement)] == [0, 0, 2, 2, 4, 4, 6, 6]


def test_the_last_devices_of_an_uneven_split_hold_less_or_nothing():
    assert [part.index for part in parts(placed((9,), "a", "[x]", "x:8"))][3:6] == ["[6:8]", "[8:9]", "[9:9]"]


@given(meshes(), st.integers(1, 12), st.integers(1, 12))
def test_a_grid_shows_devices_of_the_mesh_once_and_says_what_it_leaves_out(mesh, rows, columns):
    devices = grid(mesh, rows, columns)
    seen = [devices.device(row, column) for row in devices.rows for column in devices.columns if None not in (row, column)]
    assert len(seen) == len(set(seen))
    assert {0, mesh.size - 1} <= set(seen) <= set(range(mesh.size))
    assert (len(seen) < mesh.size) == bool(devices.note)


@given(st.integers(1, 3000), st.integers(3, 12))
def test_what_is_shown_fits_begins_with_the_first_and_ends_with_the_last(count, most):
    places = elide_positions(count, most)
    assert len(places) == min(count, most)
    assert (places[0], places[-1]) == (0, count - 1)


@given(st.lists(st.integers(0, 1 << 40), max_size=6))
def test_stacked_bars_touch_and_are_as_long_as_their_sum(values):
    spans = stack_bars(values, sum(values), 100)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(spans))
    if sum(values):
        assert spans[-1][1] == pytest.approx(100)
    assert len(spans) == len(values)


def test_a_title_wider_than_its_picture_becomes_lines_and_all_else_moves_down():
    title, below = "gpt on data:4 model:2: " + "what one device holds, " * 8, Rectangle(0, 26, 600, 20)
    line = Polyline(((0, 30), (600, 40)), "#000")
    drawing = fit_drawing((Label(0, 12, title, bold=True), below, line))
    lines = [each.text for each in drawing.labels]
    assert " ".join(lines) == title.strip()
    assert drawing.width == 608
    assert all(text_width(each) <= 600 for each in lines)
    down = drawing.labels[-1].y - 12
    assert down > 0
    assert drawing.rectangles == (replace(below, y=26 + down),)
    assert drawing.lines[0].points == ((0, 30 + down), (600, 40 + down))
    short = (Label(0, 12, "gpt", bold=True), below)
    assert fit_drawing(short).marks == short
