"""The tables under the board."""

import json
from dataclasses import replace

import pytest

from tests.support.details import with_details
from tests.support.programs import mlp_report, parameter, program
from workbench.core.sharding import Sharding
from workbench.plan.edits import ShardDim
from workbench.public_plan import Plan
from workbench.reports.device_memory import Memory
from workbench.reports.placement import Placement, Value
from workbench.reports.report import Report
from workbench.reports.step_time import Flops
from workbench.widgets.board.board_state import TABS
from workbench.widgets.tabs.board_tabs import Facts, table_state
from workbench.widgets.tabs.value_table import MOST_VALUES


def texts(block):
    return [[cell if isinstance(cell, str) else cell.get("text", cell.get("path", "")) for cell in row["cells"]] for row in block["rows"]]


@pytest.mark.parametrize("tab", [key for key, _ in TABS])
def test_every_tab_is_json_with_as_many_cells_as_columns(tab):
    state = json.loads(json.dumps(table_state(Facts(mlp_report()), tab), allow_nan=False))
    assert state["tab"] == tab
    for block in state["blocks"]:
        assert all(len(row["cells"]) == len(block["columns"]) for row in block["rows"] if "section" not in row)


def test_operations_stand_with_the_most_bytes_first(session):
    session.apply(ShardDim("hidden", ("model",)))
    _, totals, operations = table_state(Facts(session.report), "communication")["blocks"]
    sent = [int(row["cells"][4]["title"].split()[0].replace(",", "")) for row in operations["rows"]]
    assert sent == sorted(sent, reverse=True)
    assert sum(sent) == session.report.sent
    assert {row["cells"][0]["axes"][0]["name"] for row in totals["rows"]} == {"data", "model"}


def test_silence_is_said():
    quiet = Report(Plan(program(parameter("w", d=8)), "data:4"), (), (), (), Memory({}), Flops(0, 0, 4), 0)
    assert "Shardy inserts no collective" in table_state(Facts(quiet), "communication")["blocks"][0]["note"]
    assert "No warnings for" in table_state(Facts(quiet), "notes")["blocks"][0]["note"]


def test_values_are_only_computed_when_their_tab_is_open():
    asked = []
    value = Value(
        "mlp/dot_general",
        "stablehlo.dot_general",
        "float32",
        (16, 32),
        ("batch", "d_ff"),
        Sharding(((), ("model",))),
        (16, 16),
        2,
        "toy.py:7",
    )

    def values():
        asked.append(1)
        return tuple(replace(value, path=f"scope{chr(97 + i // 26)}{chr(97 + i % 26)}/dot_general") for i in range(300))

    plan = Plan(program(parameter("w", d=8)), "model:2")
    report = Report(
        plan,
        (Placement(plan.program.arguments[0], Sharding.whole(1), plan.mesh),),
        (),
        (),
        Memory({}),
        Flops(0, 0, 2),
        0,
    )
    report = with_details(report, values=values)
    table_state(Facts(report), "tensors")
    assert asked == []
    block = table_state(Facts(report), "values")["blocks"][0]
    assert (len(block["rows"]), block["note"]) == (MOST_VALUES, f"The first {MOST_VALUES} of 300. Search to see others.")
    assert [row[0] for row in texts(table_state(Facts(report), "values", "scopeln D_FF")["blocks"][0])] == ["scopeln/dot_general"]
    assert "nowhere" in table_state(Facts(report), "values", "nowhere")["blocks"][0]["note"]
    assert asked == [1]


def test_notes_offer_their_edits_as_buttons():
    report = mlp_report()
    rows = table_state(Facts(report), "notes")["blocks"][0]["rows"]
    assert [row["cells"][2]["edits"] for row in rows] == [[str(edit) for edit in note.edits] for note in report.diagnostics]


def test_an_unknown_tab_shows_the_tensors():
    assert table_state(Facts(mlp_report()), "nonsense")["tab"] == "tensors"
