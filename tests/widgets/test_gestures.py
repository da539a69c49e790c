"""From gesture to edit: what each means, and that nonsense over the wire is refused in words."""

from dataclasses import replace

import pytest

from tests.support.gestures import edit_of
from tests.support.programs import mlp_report
from workbench.errors import WorkbenchError
from workbench.plan.edits import RenameDim, ShardDim
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ReorderAxes, ResizeAxis
from workbench.reports.diagnostic import Diagnostic
from workbench.widgets.board.drop_legality import dropped_axes
from workbench.widgets.gestures.gesture_codec import zone_of

MEANINGS = [
    ({"verb": "drop", "dim": "d_model", "source": "", "target": "model"}, ShardDim("d_model", ("model",))),
    ({"verb": "drop", "dim": "batch", "source": "data", "target": ""}, ShardDim("batch", ())),
    ({"verb": "drop", "dim": "batch", "source": "data", "target": "model"}, ShardDim("batch", ("model",))),
    ({"verb": "drop", "dim": "batch", "source": "data", "target": "model", "add": True}, ShardDim("batch", ("data", "model"))),
    ({"verb": "major", "dim": "batch", "axis": "data"}, ShardDim("batch", ("data",))),
    ({"verb": "whole", "dim": "batch"}, ShardDim("batch", ())),
    ({"verb": "rename_dim", "dim": "batch", "name": " rows "}, RenameDim("batch", "rows")),
    ({"verb": "resize", "axis": "data", "size": "8"}, ResizeAxis("data", 8)),
    ({"verb": "add_axis", "axis": "pipe", "size": "2"}, AddAxis("pipe", 2)),
    ({"verb": "remove_axis", "axis": "data"}, RemoveAxis("data")),
    ({"verb": "rename_axis", "axis": "data", "name": "rows"}, RenameAxis("data", "rows")),
    ({"verb": "shift_axis", "axis": "model", "by": -1}, ReorderAxes(("model", "data"))),
    ({"verb": "shift_axis", "axis": "model", "by": 1}, ReorderAxes(("data", "model"))),
]
NONSENSE = [
    ({}, "verb"),
    ({"verb": "explode"}, "explode"),
    ({"verb": "drop", "dim": "batch"}, "source"),
    ({"verb": "drop", "dim": ["batch"], "source": "", "target": "model"}, "dim"),
    ({"verb": "resize", "axis": "data", "size": "many"}, "many"),
    ({"verb": "resize", "axis": "data", "size": "0"}, "whole number from 1"),
    ({"verb": "resize", "axis": "data", "size": "9" * 500}, "whole number from 1"),
    ({"verb": "add_axis", "axis": "pipe", "size": "-1"}, "-1"),
    ({"verb": "rename_dim", "dim": "batch", "name": "a:b"}, "a:b"),
    ({"verb": "shift_axis", "axis": "pipe", "by": 1}, "pipe"),
    ({"verb": "shift_axis", "axis": "data", "by": 10**9}, "data"),
    ({"verb": "mend", "edit": "rm -rf"}, "rm -rf"),
]


@pytest.mark.parametrize(("gesture", "edit"), MEANINGS, ids=str)
def test_a_gesture_means_an_edit(gesture, edit):
    report = mlp_report()
    assert edit_of(gesture, report.plan, report) == edit


@pytest.mark.parametrize(("gesture", "named"), NONSENSE, ids=lambda each: str(each)[:60])
def test_nonsense_is_refused_and_named(gesture, named):
    report = mlp_report()
    with pytest.raises(WorkbenchError, match=named):
        edit_of(gesture, report.plan, report)


def test_the_edit_of_a_note_is_found_by_its_text():
    suggested = ShardDim("d_model", ("data",))
    report = replace(mlp_report(), diagnostics=(Diagnostic("idle axis", "data", "`data` is idle", (suggested,)),))
    assert edit_of({"verb": "mend", "edit": str(suggested)}, report.plan, report) == suggested


DROPS = [
    ((), "", "data", False, ("data",)),
    (("data",), "data", "data", False, ("data",)),
    (("data",), "data", "data", True, ("data",)),
    (("data", "model"), "model", "data", False, ("model", "data")),
    (("data", "model"), "data", "model", False, ("model", "data")),
    (("data", "model"), "*", "pipe", False, ("pipe",)),
    (("data", "model"), "*", "", False, ()),
    (("data",), "*", "model", True, ("data", "model")),
    (("data", "model"), "model", "pipe", False, ("data", "pipe")),
    (("data", "model"), "data", "pipe", True, ("data", "model", "pipe")),
    (("data",), "", "model", False, ("data", "model")),
]


@pytest.mark.parametrize(("axes", "source", "target", "add", "after"), DROPS)
def test_a_drop_gives_a_dimension_its_axes(axes, source, target, add, after):
    assert dropped_axes(axes, source, target, add=add) == after


def test_a_refusal_is_shown_where_the_hand_was():
    assert zone_of({"verb": "drop", "source": "data", "target": "model"}) == "model"
    assert zone_of({"verb": "resize", "axis": "data"}) == "data"
    assert zone_of({"verb": "rename_dim", "dim": "batch", "zone": "data"}) == "data"
    assert zone_of({"verb": "add_axis", "axis": "data"}) == "+"
    assert zone_of({"verb": "undo"}) == "tools"
    assert zone_of({"verb": "own", "target": "model", "zone": "tables"}) == "tables"
