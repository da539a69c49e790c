"""The mesh editor: its axes in another order, devices counted against the hardware; and what an edit changed, in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.gestures import edit_of
from tests.support.programs import mlp_report
from tests.widgets.test_board import Screen
from workbench.core.mesh import Mesh
from workbench.errors import MeshError
from workbench.hardware.catalogue import parse_hardware
from workbench.plan.edits import SetHardware, ShardDim
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ReorderAxes, SetMesh
from workbench.visualize.draw.palette import AXES, axis_colour, fixed_axis_colours, number_axes
from workbench.widgets.board.board_state import board_state, device_count
from workbench.widgets.board.figure_changes import figure_states
from workbench.widgets.board.key_figures import figures
from workbench.widgets.tabs.table_blocks import axis_colours


def test_axes_are_put_in_the_order_of_a_drop():
    report = mlp_report()
    assert edit_of({"verb": "order_axes", "names": ["model", "data"]}, report.plan, report) == ReorderAxes(("model", "data"))


@pytest.mark.parametrize("names", [None, "model data", [1, 2], ["data"], ["data", "data"], ["data", "model", "pipe", "x"]])
def test_an_order_that_is_none_is_refused(names):
    report = mlp_report()
    with pytest.raises(MeshError, match="order of"):
        edit_of({"verb": "order_axes", "names": names}, report.plan, report).apply(report.plan)


@pytest.mark.parametrize(
    ("mesh", "hardware", "text", "tone"),
    [
        ("data:4 model:2", "", "4 × 2 = 8 devices", ""),
        ("data:1", "", "1 device", ""),
        ("data:4 model:2", "8 H100", "4 × 2 = 8 of 8 devices", ""),
        ("data:8 model:2", "8 H100", "8 × 2 = 16 of 8 devices: 8 too many for 8 H100", "bad"),
        ("data:2 model:2", "8 H100", "2 × 2 = 4 of 8 devices: 4 idle", "warn"),
    ],
)
def test_devices_are_counted_out_against_the_hardware(mesh, hardware, text, tone):
    plan = mlp_report("").plan.updated(mesh=Mesh(mesh), hardware=parse_hardware(hardware) if hardware else None)
    count = device_count(plan)
    assert (count["text"], count["tone"]) == (text, tone)


def test_the_collectives_an_edit_adds_are_named_and_those_it_takes_away(session):
    before = figures(session.report)
    session.apply(ShardDim("hidden", ("model",)))
    after = figures(session.report)

    def changes(now, then):
        return next(each["changes"] for each in figure_states(now, then) if each["key"] == "sent")

    added = changes(after, before)
    assert added
    assert all(each["text"].startswith("+") and "all-reduce" in each["text"] and each["tone"] == "bad" for each in added)
    assert [each["text"].replace("−", "+") for each in changes(before, after)] == [each["text"] for each in added]
    assert changes(after, after) == []


def test_every_figure_that_moves_says_by_how_much(session):
    before = figures(session.report)
    session.apply(ShardDim("hidden", ("model",)))
    after = figures(session.report)
    old = {figure.key: figure for figure in before}
    for state, figure in zip(figure_states(after, before), after, strict=True):
        moved = figure.show(abs(figure.value - old[figure.key].value)) != figure.show(0)
        assert (state["delta"] is not None) == moved, figure.key


def colours(session):
    return {zone["axis"]: zone["colour"] for zone in board_state(session)["zones"] if zone["axis"]}


def test_an_axis_keeps_its_colour_while_others_are_added_before_it_moved_removed_and_renamed(session):
    first = colours(session)
    session.apply(SetMesh(Mesh("pipe:1 data:4 model:2")))
    assert colours(session) == {"pipe": 2, **first}
    session.apply(ReorderAxes(("model", "pipe", "data")))
    assert colours(session) == {"pipe": 2, **first}
    session.apply(RemoveAxis("data"))
    session.apply(AddAxis("expert", 2))
    assert colours(session) == {"model": first["model"], "pipe": 2, "expert": 3}, "a colour that another axis had is taken last"
    session.apply(RenameAxis("model", "tensor"))
    assert colours(session)["tensor"] == first["model"]
    session.apply(AddAxis("data", 2))
    assert colours(session)["data"] == first["data"]


def test_pictures_and_tables_have_the_colours_of_the_board(session):
    screen = Screen(session)
    session.apply(SetMesh(Mesh("pipe:1 data:4 model:2")))
    with fixed_axis_colours(axis_colours(session)):
        assert axis_colour("data", session.plan.mesh) == AXES[0]
    assert axis_colour("data", session.plan.mesh) == AXES[1], "without a board by index"
    assert "'name': 'data', 'colour': 0" in str(screen.shown["table"]["blocks"])
    session.apply(SetHardware(parse_hardware("TPU v5e 2x4")))
    links = {link["axis"]: link["colour"] for link in board_state(session)["hardware"]["wiring"]}
    assert links == {axis: colour for axis, colour in colours(session).items() if axis in links}
    assert links["data"] == 0


@given(st.lists(st.sampled_from(("data:4", "data:4 a:1", "b:1 data:4 a:1", "a:1 c:1", "e:1 f:1 g:1 h:1 data:4", "")), max_size=8))
def test_axes_of_a_mesh_differ_in_colour_and_none_changes_it_while_there_are_six(meshes):
    steps = [(Mesh(each), {}) for each in meshes]
    for last in range(1, len(steps) + 1):
        now = number_axes(steps[:last], steps[last - 1][0])
        assert len(set(now.values())) == len(now)
        if last > 1 and len({name for mesh, _ in steps[:last] for name in mesh.names}) <= len(AXES):
            before = number_axes(steps[: last - 1], steps[last - 2][0])
            assert all(now[name] == before[name] for name in now.keys() & before.keys())
