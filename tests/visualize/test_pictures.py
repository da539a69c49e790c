"""Pictures and their text twins: the same facts in each form."""

import itertools
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import jax
import pytest
from bokeh.models import Circle, MultiLine, Patches, Quad, Range1d, Text
from hypothesis import given

from tests.support.details import with_details
from tests.support.placements import image_batch, placed, placements
from tests.support.programs import mlp_report
from tests.support.searches import OTHERS, front_result, proof_states
from tests.support.steps import step_report
from workbench.analysis.tier_comparison import Comparison
from workbench.core.tensor import Role
from workbench.core.text_tables import WIDTH
from workbench.hardware.catalogue import parse_hardware
from workbench.public_plan import Plan
from workbench.reports.collective import KINDS, Collective
from workbench.reports.compiled import Compiled, CompiledKernel, CompiledMemory
from workbench.reports.device_memory import Alive, Memory, MemoryCurve
from workbench.reports.latency_front import DecodePoint, ImpossibleDecode, LatencyFront
from workbench.search.decode_front import mark_front
from workbench.tracing import trace
from workbench.visualize import (
    communication,
    decode_front,
    device_grid,
    graph,
    memory,
    memory_map,
    memory_over_step,
    propagation,
    roofline,
    search_front,
    search_progress,
    shapes,
    step_time,
)
from workbench.visualize.draw import bars, palette
from workbench.widgets.board import board_state

STYLE = Path(board_state.__file__).parents[1] / "static" / "style.css"
LARGE = placed((50304, 12288), "vocab d_model", "[model, data]", "data:64 model:32", "params/embedding/tokens")
KIB = 1024
STEP = with_details(  # forward, backward, optimizer: activations pile up and go away again
    replace(mlp_report(), memory=Memory({Role.PARAMETER: 2 * KIB, Role.ACTIVATION: 6 * KIB})),
    memory_curve=MemoryCurve(
        ("layers/0/mlp", "layers/1/mlp", "loss", "grad/loss", "grad/layers/1/mlp", "grad/layers/0/mlp", "optimizer/add"),
        {
            Role.PARAMETER: (2 * KIB,) * 7,
            Role.GRADIENT: (0, 0, 0, 0, KIB, 2 * KIB, 0),
            Role.ACTIVATION: (2048, 4096, 6144, 5120, 2048, 0, 0),
        },
    ),
    alive=(
        Alive("layers/1/mlp/dot_general", Role.ACTIVATION, 4 * KIB, 2),
        Alive("params/layers/0/w1", Role.PARAMETER, 2 * KIB, 1),
        Alive("loss/exp", Role.ACTIVATION, 2 * KIB, 1),
    ),
)
MADE = Compiled(
    "TPU v5e 2x4",
    8,
    1.0,
    CompiledMemory(arguments=2 * KIB, outputs=2 * KIB, aliased=2 * KIB, temporary=6 * KIB),
    (),
    alive=(("fusion.1", 2 * KIB), ("fusion.2", 5 * KIB), ("fusion.3", KIB)),
    alive_at_peak=(("layers/1/mlp/dot_general", 4 * KIB),),
)
MADE_FAST = replace(MADE, kernels=(CompiledKernel("fusion.1", "fusion", 12, "layers/mlp/dot_general", "toy.py:7", 80e-6, 0, 0),))


def two_products(x, w1, w2):
    with jax.named_scope("up"):
        hidden = jax.nn.relu(x @ w1)
    with jax.named_scope("down"):
        return hidden @ w2


BLOCK = trace(
    two_products,
    *(jax.ShapeDtypeStruct(shape, "float32") for shape in ((64, 16), (16, 32), (32, 16))),
    dims={"x": "batch d_model", "w1": "d_model d_ff", "w2": "d_ff d_model"},
    name="mlp",
)


@cache
def spread():
    return Plan(BLOCK, "data:4 model:2", "d_ff:model; @down/dot_general=[data, ?]").report()


GIB = 1 << 30
DECODED = LatencyFront(
    "llama3-70b",
    tuple(
        sorted(
            mark_front(
                [
                    DecodePoint(batch, f"TPU v5e {shape}", chips, f"model:{chips}", step, bytes_, int(peak * GIB), 16 * GIB)
                    for batch, shape, chips, step, bytes_, peak in (
                        (8, "2x4", 8, 0.0093, 0.0125, 9.5),
                        (32, "2x4", 8, 0.0192, 0.0180, 13.3),
                        (64, "2x4", 8, 0.0282, 0.0261, 18.4),
                        (8, "4x4", 16, 0.0101, 0.0115, 8.9),
                        (64, "4x4", 16, 0.0192, 0.0180, 13.3),
                        (16, "4x4", 16, 0.0210, 0.0120, 9.3),
                    )
                ]
            ),
            key=lambda each: (each.seconds_per_token, each.chips),
        )
    ),
    (ImpossibleDecode(1, "TPU v5e 4x4", "`batch` (1) is on mesh axis `data` (2)."),),
)
PICTURES = {
    "device_grid": lambda: device_grid(image_batch("[processor_cols, -, -, -]")),
    "device_grid_large": lambda: device_grid(LARGE),
    "device_grid_row": lambda: device_grid(placed((512, 1024), "batch io", "[all, -]", "all:8", "x")),
    "communication": lambda: communication(mlp_report()),
    "memory": lambda: memory(mlp_report()),
    "memory_over_step": lambda: memory_over_step(STEP, MADE),
    "device_grid_hosts": lambda: device_grid(placed((64, 16), "batch io", "[x, -]", "x:8 y:2", "x"), parse_hardware("2 nodes of 8 H100")),
    "communication_timed": lambda: communication(step_report()),
    "memory_map": lambda: memory_map(step_report()),
    "shapes": lambda: shapes(step_report()),
    "step_time": lambda: step_time(step_report(), Comparison(step_report(), MADE_FAST)),
    "roofline": lambda: roofline(step_report()),
    "graph": lambda: graph(step_report(), ("layers", "layers/*")),
    "propagation": lambda: propagation(spread()),
    "search_front": lambda: search_front(front_result(), OTHERS),
    "search_progress": lambda: search_progress(proof_states()),
    "decode_front": lambda: decode_front(DECODED),
}
"""By name, what draws each: none is drawn before a test asks for it."""


@cache
def picture_of(name):
    return PICTURES[name]()


@pytest.fixture(params=PICTURES)
def picture(request):
    return picture_of(request.param)


@pytest.mark.parametrize("name", PICTURES)
def test_the_text_twin_is_worth_reading(name, golden):
    golden(f"{name}.txt", picture_of(name).text)


@given(placements())
def test_every_placement_can_be_shown_on_the_page(placement):
    made = device_grid(placement)
    assert all(len(line) <= WIDTH for line in made.text.splitlines()[3:])
    assert len([each for each in made.drawing.rectangles if each.title]) > 0
    assert ET.fromstring(made.svg).attrib["role"] == "img"


def test_the_svg_holds_every_mark_and_needs_nothing_from_elsewhere(picture):
    root = ET.fromstring(picture.svg)
    tags = [element.tag.partition("}")[2] for element in root.iter()]
    assert tags.count("text") == len(picture.drawing.labels)
    assert tags.count("rect") == len(picture.drawing.rectangles) + sum(each.hatched for each in picture.drawing.rectangles)
    assert tags.count("polygon") == len(picture.drawing.areas)
    assert tags.count("polyline") == len(picture.drawing.lines)
    assert tags.count("circle") == len(picture.drawing.dots)
    assert set(tags) <= {"svg", "polygon", "polyline", "circle", "defs", "pattern", "path", "rect", "title", "text"}
    assert re.findall(r"https?://[^\"]+", picture.svg) == ["http://www.w3.org/2000/svg"]
    assert len(picture.svg) < 20_000


def test_no_mark_lies_outside_its_drawing(picture):
    drawing = picture.drawing
    for mark in drawing.rectangles:
        assert min(mark.x, mark.y, mark.width, mark.height) >= 0
        assert mark.x + mark.width <= drawing.width
        assert mark.y + mark.height <= drawing.height
    assert all(0 <= label.x <= drawing.width and 0 <= label.y <= drawing.height for label in drawing.labels)
    outlines = (mark.points for mark in (*drawing.areas, *drawing.lines))
    assert all(0 <= x <= drawing.width and 0 <= y <= drawing.height for points in outlines for x, y in points)
    assert all(0 <= mark.x <= drawing.width and 0 <= mark.y <= drawing.height for mark in drawing.dots)


def test_the_figure_holds_the_same_marks_on_a_transparent_ground(picture):
    figure = picture.figure
    glyphs = [(type(renderer.glyph), len(next(iter(renderer.data_source.data.values())))) for renderer in figure.renderers]
    titled = sum(bool(each.title) for each in picture.drawing.rectangles)
    drawing = picture.drawing
    areas = [(Patches, len(drawing.areas))] if drawing.areas else []
    lines = [(MultiLine, len(drawing.lines))] if drawing.lines else []
    dots = [(Circle, len(drawing.dots))] if drawing.dots else []
    quads = [(Quad, len(drawing.rectangles) - titled), (Quad, titled)]
    assert glyphs == [*areas, *lines, *quads, *dots, (Text, len(drawing.labels))]
    assert isinstance(figure.x_range, Range1d)
    assert figure.y_range.start > figure.y_range.end
    assert (figure.background_fill_color, figure.border_fill_color) == (None, None)
    assert figure.renderers[-1].data_source.data["text"] == [label.text for label in picture.drawing.labels]


def test_a_picture_gives_a_new_figure_each_time(picture):
    assert picture.figure is not picture.figure


def test_in_a_notebook_it_is_svg_with_the_twin_beside_it(picture):
    assert picture._repr_mimebundle_() == {"image/svg+xml": picture.svg, "text/plain": picture.text}
    assert repr(picture) == f"Picture({picture.text.splitlines()[0]!r})"


def test_every_device_is_there_and_copies_are_hatched():
    made = picture_of("device_grid").drawing
    held = [each for each in made.rectangles if each.title]
    assert [each.hatched for each in held] == [False] * 4 + [True] * 4
    assert held[7].title == "device 7 holds image_batch[75:100, :, :, :], as device 3 does"
    assert [label.text for label in made.labels if " = " in label.text] == ["4 = 0", "5 = 1", "6 = 2", "7 = 3"]


def test_bands_are_in_the_colour_of_the_axis_that_splits():
    made = device_grid(image_batch("[-, processor_rows, processor_cols, -]")).drawing
    assert {each.fill for each in made.rectangles if each.fill} == set(palette.AXES[:2])
    assert {label.colour for label in made.labels} == {palette.TEXT, *palette.AXES[:2]}


def test_a_large_mesh_is_cut_with_a_note():
    assert "devices are shown: the first ones and the last" in picture_of("device_grid_large").text
    assert len(picture_of("device_grid_large").drawing.rectangles) < 120


def test_an_uneven_split_shows_devices_with_nothing():
    assert "9:9" in device_grid(placed((9,), "a", "[x]", "x:8")).text


def test_names_are_escaped():
    made = device_grid(placed((8,), "<b>", "[x]", "x:8", "<img src=x onerror=y>"))
    assert "<img" not in made.svg
    assert "<b>" not in made.svg


def test_bars_are_in_proportion_and_one_for_each_mesh_axis():
    segments = [each for each in communication(mlp_report()).drawing.rectangles if each.title]
    assert [each.title for each in segments] == ["data: all-reduce 3.00 KiB", "model: all-reduce 2.00 KiB"]
    assert segments[0].width / segments[1].width == pytest.approx(3072 / 2048)
    assert [each.fill for each in segments] == list(palette.AXES[:2])


def test_kinds_of_one_axis_are_stacked_and_told_apart():
    kinds = tuple(Collective(kind, ("data",), 512, 512, 1, "f", "") for kind in KINDS)
    segments = [each for each in communication(replace(mlp_report(), collectives=kinds)).drawing.rectangles if each.title]
    assert [each.title.split()[1] for each in segments] == list(KINDS)
    assert len({each.alpha for each in segments}) == len(KINDS) == len(bars.SHADES)
    assert all(after.x == pytest.approx(before.x + before.width) for before, after in itertools.pairwise(segments))


def test_what_goes_over_several_axes_has_no_axis_colour():
    mixed = (Collective("all-reduce", ("data", "model"), 512, 512, 1, "f", ""),)
    made = communication(replace(mlp_report(), collectives=mixed))
    assert "data+model" in made.text
    assert {each.fill for each in made.drawing.rectangles} == {palette.NEUTRAL}


def test_a_report_without_communication_or_memory_is_one_line():
    nothing = replace(mlp_report(), collectives=(), memory=Memory({}))
    assert communication(nothing).text == "mlp on data:4 model:2: each device sends nothing"
    assert memory(nothing).drawing.rectangles == ()


def surface(points) -> float:
    """Of a polygon, by the shoelace formula."""
    pairs = zip(points, (*points[1:], points[0]), strict=True)
    return abs(sum(x * v - u * y for (x, y), (u, v) in pairs)) / 2


def test_the_areas_of_the_step_are_as_large_as_what_is_held():
    curve = STEP.memory_curve.by_role
    areas = memory_over_step(STEP).drawing.areas
    assert [each.fill for each in areas] == [palette.ROLES[tuple(Role).index(role)] for role in curve]
    sizes = [surface(each.points) / sum(counts) for each, counts in zip(areas, curve.values(), strict=True)]
    assert sizes == pytest.approx([sizes[0]] * 3, rel=0.01)


def test_the_peak_of_the_step_is_marked_where_it_is():
    drawing = memory_over_step(STEP).drawing
    assert "predicted: 8.00 KiB live at the peak, at loss" in [label.text for label in drawing.labels]
    (x, _), (_, top) = next(each.points for each in drawing.lines if each.points[0][0] == each.points[1][0])
    highest = min((y, x) for area in drawing.areas for x, y in area.points)
    assert highest[0] == pytest.approx(top, abs=0.2)
    assert highest[1] <= x <= highest[1] + 760 / 7


def test_the_memory_of_a_device_is_a_line_where_the_step_comes_near_it():
    for capacity, shown in ((0, False), (6 * KIB, True), (10 * KIB, True), (1 << 30, False)):
        made = memory_over_step(replace(STEP, memory=replace(STEP.memory, capacity=capacity)))
        assert (palette.WARNING in made.svg) == shown
        assert ("One device has" in made.text) == shown


def test_what_is_alive_is_listed_as_far_as_one_wants():
    assert "params/layers/0/w1, parameter" in memory_over_step(STEP).svg
    assert "and 2 more, 4.00 KiB" in memory_over_step(STEP, listed=1).text
    assert "alive there" not in memory_over_step(STEP, listed=0).text


def test_a_real_step_peaks_where_the_report_says():
    from workbench.models import build
    from workbench.public_plan import Plan

    report = Plan(build("gpt"), "data:4 model:2", "batch:data; d_ff:model; heads:model").report()
    curve = [sum(counts) for counts in zip(*report.memory_curve.by_role.values(), strict=True)]
    assert max(curve) == report.memory.peak
    made = memory_over_step(report)
    assert len(made.svg) < 24_000
    assert report.alive[0].path in made.text


def test_the_board_and_the_pictures_have_one_palette():
    css = re.findall(r'\[data-c="\d"\]\{--c:(#\w+)\}', STYLE.read_text(encoding="utf-8"))
    assert tuple(colour.upper() for colour in css) == palette.AXES
    assert len(palette.ROLES) == len(Role)


@pytest.mark.compile
def test_bokeh_is_loaded_when_a_figure_is_asked_for_and_not_before():
    code = "import sys, workbench.visualize, workbench.app.notebook.board_snapshot; print('bokeh' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_a_long_propagation_shows_its_first_steps_and_the_values_they_reach():
    def chain(x):
        for _ in range(30):
            x = jax.numpy.sin(x)
        return x

    report = Plan(trace(chain, jax.ShapeDtypeStruct((8, 8), "float32"), dims={"x": "a b"}), "m:2", "a:m").report()
    made = propagation(report)
    steps = len(report.propagation.steps)
    assert steps > 8
    assert made.text.startswith(f"chain on m:2: its shardings spread in {steps} steps, the first 8 here")
    assert len([each for each in made.drawing.rectangles if each.title]) == 9  # x by hand, and one value a step
