"""The mesh editor: its axes in another order, devices counted against the hardware; and what an edit changed, in words."""

import pytest

from tests.support.gestures import edit_of
from tests.support.programs import mlp_report
from workbench.core.mesh import Mesh
from workbench.errors import MeshError
from workbench.hardware.catalogue import parse_hardware
from workbench.plan.edits import ShardDim
from workbench.plan.mesh_edits import ReorderAxes
from workbench.widgets.board.board_state import device_count
from workbench.widgets.board.key_figures import figure_states, figures


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
