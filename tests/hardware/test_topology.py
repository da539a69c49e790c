import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.example_hardware import list_example_hardware
from workbench.core.mesh import Mesh
from workbench.errors import HardwareError
from workbench.hardware.axis_assignment_text import AxisAssignment, Route, parse_axis_assignment
from workbench.hardware.axis_placement import axis_assignment_error, default_axis_assignment, device_order, physical_spans
from workbench.hardware.catalogue import load_catalogue, parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.hardware.hardware_text import axis_assignment_text

ALL_HARDWARE = list_example_hardware(load_catalogue())
NAMES = st.sampled_from(("data", "model", "x.1", "pipe"))
ROUTES = st.lists(st.builds(Route, st.sampled_from(("x", "y", "node", "device")), st.none() | st.integers(1, 64)), min_size=1, max_size=3)


@st.composite
def fitting_meshes(draw: st.DrawFn, hardware: Hardware) -> Mesh:
    """A mesh that is the hardware divided somehow: every divisor of every physical axis goes to one of four mesh axes."""
    sizes = [1] * 4
    for axis in hardware.axes:
        rest = axis.size
        for factor in (2, 3):
            while rest % factor == 0:
                rest //= factor
                sizes[draw(st.integers(0, 3))] *= factor
    return Mesh(tuple(zip("abcd", sizes, strict=True)))


@given(st.lists(st.tuples(NAMES, ROUTES.map(tuple)), unique_by=lambda entry: entry[0], max_size=4))
def test_a_wiring_reads_back_from_its_text(routes):
    axis_assignment = AxisAssignment(tuple(routes))
    assert parse_axis_assignment(str(axis_assignment)) == axis_assignment


@pytest.mark.compile
@pytest.mark.parametrize("hardware", ALL_HARDWARE, ids=str)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_by_itself_a_mesh_as_large_as_the_hardware_takes_each_device_once(hardware, data):
    mesh = data.draw(fitting_meshes(hardware))
    axis_assignment = default_axis_assignment(mesh, hardware)
    order = device_order(mesh, hardware, axis_assignment)
    assert order.shape == mesh.sizes
    assert sorted(order.flat) == list(range(hardware.size))
    # The text of the default says all of it.
    again = parse_axis_assignment(str(axis_assignment))
    assert physical_spans(mesh, hardware, again) == physical_spans(mesh, hardware, axis_assignment)
    assert (device_order(mesh, hardware, again) == order).all()
    assert (device_order(mesh, hardware) == order).all()


@pytest.mark.compile
@pytest.mark.parametrize("hardware", ALL_HARDWARE, ids=str)
@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_any_mesh_is_wired_to_different_devices_or_the_problem_is_told(hardware, sizes):
    mesh = Mesh(tuple(zip("abcd", sizes, strict=False)))
    problem = axis_assignment_error(mesh, hardware)
    if problem is not None:
        assert problem.ways_out
        return
    assert mesh.size <= hardware.size
    order = device_order(mesh, hardware)
    assert len(set(order.flat)) == mesh.size
    for name, routes in physical_spans(mesh, hardware).items():
        assert math.prod(physical_span.size for physical_span in routes) == mesh[name]


def test_a_link_that_carries_nothing_of_an_axis_is_no_part_of_its_way():
    mesh, hardware = Mesh("data:4"), parse_hardware("TPU v5e 2x4")
    assert physical_spans(mesh, hardware, parse_axis_assignment("data:x+y")) == physical_spans(
        mesh, hardware, parse_axis_assignment("data:y")
    )
    assert axis_assignment_text(mesh, hardware, parse_axis_assignment("data:x+y")) == "data over y (4, a line)"


@pytest.mark.parametrize(
    ("hardware", "mesh", "axis_assignment"),
    [
        # whole dimensions of a torus, the minor axis first, as JAX's mesh_utils
        ("TPU v5e 16x16", "data:16 model:16", "data:y; model:x"),
        ("TPU v5p 8x8x16", "data:64 model:16", "data:x+y; model:z"),
        ("TPU v5p 8x8x16", "data:128 model:8", "data:y+z; model:x"),
        ("TPU v5p 4x4x16", "data:16 model:16", "data:z; model:x+y"),
        ("TPU v3 32x32", "data:32 model:64", "data:y; model:x+core"),
        # a dimension is shared only where none is free
        ("TPU v5e 16x16", "data:64 model:4", "data:x+y; model:x"),
        ("TPU v5e 16x16", "data:4 model:4", "data:y; model:x"),
        # inside before across
        ("32 nodes of 8 H100", "data:32 model:8", "data:node; model:device"),
        ("8 nodes of 8 H100", "data:8 model:8", "data:node; model:device"),
        ("8 nodes of 8 H100", "data:16 model:4", "data:node+device(2); model:device"),
        ("4 nodes of 8 H100", "model:4 data:8", "model:node; data:device"),
        ("4 slices of TPU v5e 16x16", "data:64 model:16", "data:slice+y; model:x"),
        # a choice that leaves no room for the rest is taken back
        ("2 nodes of 6 H100", "a:3 b:4", "a:device; b:node+device(2)"),
        ("8 H100", "data:8 model:1", "data:device"),
    ],
)
def test_where_mesh_axes_go_by_themselves(hardware, mesh, axis_assignment):
    assert str(default_axis_assignment(Mesh(mesh), parse_hardware(hardware))) == axis_assignment


@pytest.mark.parametrize(("x", "y", "z"), [(4, 4, 4), (8, 8, 16), (4, 8, 8), (4, 12, 16)])
def test_whole_dimensions_are_assigned_as_jax_does(x, y, z):
    mesh_utils = pytest.importorskip("jax._src.mesh_utils")
    hardware = parse_hardware(f"TPU v5p {x}x{y}x{z}")
    devices = np.arange(x * y * z).reshape(x, y, z)
    for sizes in [(x, y * z), (y * z, x), (x * y, z), (z, y * x), (x, y, z), (z, y, x), (x * y * z,)]:
        theirs, _ = mesh_utils._create_device_mesh_for_nd_torus(devices, sizes)
        ours = device_order(Mesh(tuple(zip("abc", sizes, strict=False))), hardware)
        assert (ours == theirs).all()


def test_axes_that_share_a_physical_axis_stand_apart():
    hardware = parse_hardware("TPU v5e 16x16")
    apart = physical_spans(Mesh("data:4 model:4"), hardware, parse_axis_assignment("data:x; model:x"))
    assert [(each.size, each.stride) for name in ("data", "model") for each in apart[name]] == [(4, 4), (4, 1)]
    swapped = physical_spans(Mesh("data:4 model:4"), hardware, parse_axis_assignment("model:x; data:x"))
    assert [each.stride for name in ("data", "model") for each in swapped[name]] == [1, 4]
    assert device_order(Mesh("data:2 model:2"), parse_hardware("TPU v5e 4x1"), parse_axis_assignment("model:x; data:x")).tolist() == [
        [0, 2],
        [1, 3],
    ]


def test_an_axis_that_the_wiring_does_not_name_goes_where_there_is_room():
    hardware = parse_hardware("TPU v5e 16x16")
    assert [
        each.physical.name for each in physical_spans(Mesh("data:16 model:16"), hardware, parse_axis_assignment("data:x"))["model"]
    ] == ["y"]


def test_open_sizes_are_found_from_the_minor_one_on():
    routes = physical_spans(Mesh("data:64"), parse_hardware("32 nodes of 8 H100"), parse_axis_assignment("data:node+device"))["data"]
    assert [(each.physical.name, each.size) for each in routes] == [("node", 8), ("device", 8)]


@pytest.mark.parametrize(
    ("hardware", "mesh", "axis_assignment", "message"),
    [
        (
            "TPU v5e 8x16",
            "data:16 model:8",
            "data:x; model:y",
            "`data` 16 devices are assigned to `x`; `x` of TPU v5e 8x16 has 8.\n  Try: spread it, `data:y+x` · make `data` smaller.",
        ),
        (
            "TPU v5e 16x16",
            "data:8 model:4",
            "data:x; model:x",
            "`data` 8 x `model` 4 = 32 devices are assigned to `x`; `x` of TPU v5e 16x16 has 16.\n"
            "  Try: spread it, `data:y+x` · make `data` smaller.",
        ),
        (
            "TPU v5e 16x16",
            "data:8",
            "data:x(3)+y",
            "`data` is 8; the axis assignment puts 3 x 2 = 6 of it on x(3)+y.\n  Try: make `data` 6 · leave a size open.",
        ),
        (
            "TPU v5e 16x16",
            "data:8",
            "data:z",
            "There is no physical axis `z` of TPU v5e 16x16; there are `x`, `y`.\n  Try: use one of these names.",
        ),
        ("8 H100", "data:8", "dta:device", "There is no mesh axis `dta`; there are `data`.\n  Did you mean `data`?"),
        (
            "8 H100",
            "data:8",
            "data:device(2)+device(4)",
            "The axis assignment puts `data` on one physical axis twice.\n  Try: write one size for both.",
        ),
        (
            "TPU v5e 16x16",
            "data:64 model:8",
            None,
            "The mesh needs `data` 64 x `model` 8 = 512 devices; TPU v5e 16x16 has 256.\n  Try: make `data` 32 · choose larger hardware.",
        ),
        (
            "TPU v5e 2x4",
            "data:7",
            None,
            "The mesh data:7 has 7 devices of the 8 of TPU v5e 2x4, but its axes do not factor into the sizes of `x` 2, `y` 4.\n"
            "  Try: use mesh axes that are products of those sizes · choose other hardware.",
        ),
    ],
)
def test_a_wiring_that_does_not_fit_is_told_with_its_arithmetic(hardware, mesh, axis_assignment, message):
    problem = axis_assignment_error(
        Mesh(mesh), parse_hardware(hardware), parse_axis_assignment(axis_assignment) if axis_assignment else None
    )
    assert str(problem) == message
    with pytest.raises(HardwareError):
        device_order(Mesh(mesh), parse_hardware(hardware), parse_axis_assignment(axis_assignment) if axis_assignment else None)


@pytest.mark.parametrize("text", ["data", "data:", ":x", "data:x+", "data:x(a)", "data:x(0)", "data:x; data:y", "data:x y"])
def test_a_text_that_is_no_wiring_is_refused(text):
    with pytest.raises(HardwareError):
        parse_axis_assignment(text)


def test_a_wiring_follows_its_axes():
    axis_assignment = parse_axis_assignment("data:x+y; model:z")
    assert str(axis_assignment.renamed("model", "tensor")) == "data:x+y; tensor:z"
    assert str(axis_assignment.restricted(Mesh("model:8"))) == "model:z"
