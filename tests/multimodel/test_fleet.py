"""What is asked for: values of the wrong type are refused in words, before an engine meets them."""

import re
from pathlib import Path

import pytest

from tests.support.fleets import perceptron
from workbench.errors import FleetError
from workbench.multimodel.fleet import Fleet, FleetModel

PROGRAM = perceptron(2)
MODEL = FleetModel("a", PROGRAM)


def test_a_folder_may_be_a_text_and_lists_are_kept_as_tuples():
    fleet = Fleet([FleetModel("a", PROGRAM, cuts=["layer_1"])], spill="disk", folder="runs")
    assert fleet.folder == Path("runs")
    assert fleet.models[0].cuts == ("layer_1",)
    assert fleet == Fleet((FleetModel("a", PROGRAM, cuts=("layer_1",)),), spill="disk", folder=Path("runs"))


@pytest.mark.parametrize(
    ("make", "message", "way_out"),
    [
        (lambda: FleetModel(3, PROGRAM), "`name` is 3; it should be a text.", 'write "3"'),
        (lambda: FleetModel(None, PROGRAM), "`name` is None; it should be a text.", 'write "a", say'),
        (
            lambda: FleetModel("a", "mnist"),
            "Model `a`: `program` is 'mnist'; it should be a `Program`.",
            "make it with `wb.trace_training`",
        ),
        (
            lambda: FleetModel("a", PROGRAM, cuts="layers/1"),
            "Model `a`: `cuts` is 'layers/1'; it should be a list of the paths of blocks.",
            'write cuts=["layers/1"]',
        ),
        (
            lambda: FleetModel("a", PROGRAM, cuts=(1,)),
            "Model `a`: `cuts` is (1,); it should be a list of the paths of blocks.",
            'write cuts=["layers/1"], say',
        ),
        (
            lambda: FleetModel("a", PROGRAM, stop_below="0.1"),
            "Model `a`: `stop_below` is '0.1'; it should be a number.",
            "write a number, such as stop_below=0.1",
        ),
        (lambda: Fleet(MODEL), "`models` is of type `FleetModel`; it should be a list of models.", "write a list, such as models=["),
        (lambda: Fleet([PROGRAM]), "`models[0]` is of type `Program`; it should be a `FleetModel`.", "write a list, such as models=["),
        (lambda: Fleet((MODEL,), folder=3), "`folder` is 3; it should be the path of a folder.", 'write folder="runs"'),
        (lambda: Fleet((MODEL,), buffer="0.1"), "`buffer` is '0.1'; it should be a share of a device's memory.", "write buffer=0.15"),
    ],
)
def test_a_wrong_type_is_refused_in_words(make, message, way_out):
    with pytest.raises(FleetError, match=re.escape(message)) as raised:
        make()
    assert raised.value.ways_out[0].startswith(way_out)
