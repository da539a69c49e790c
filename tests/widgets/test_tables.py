"""The tables under the board."""

import json
from dataclasses import replace

import pytest

from tests.support.details import with_details
from tests.support.programs import mlp_report, parameter, program
from workbench.core.sharding import Sharding
from workbench.models import build
from workbench.plan.edits import ShardDim
from workbench.public_plan import Plan
from workbench.reports.device_memory import Memory
from workbench.reports.placement import Placement, Value
from workbench.reports.report import Report
from workbench.reports.step_time import Flops
from workbench.widgets.board.board import Board
from workbench.widgets.tabs.board_tabs import SECTIONS, VIEWS, Facts, table_state
from workbench.widgets.tabs.picture_tabs import FEW
from workbench.widgets.tabs.value_table import MOST_VALUES


def texts(block):
    return [[cell if isinstance(cell, str) else cell.get("text", cell.get("path", "")) for cell in row["cells"]] for row in block["rows"]]


@pytest.mark.parametrize("tab", [section.key for section in SECTIONS])
def test_every_tab_is_json_with_as_many_cells_as_columns(tab):
    state = json.loads(json.dumps(table_state(Facts(mlp_report()), tab), allow_nan=False))
    assert state["tab"] == tab
    for block in state["blocks"]:
        assert all(len(row["cells"]) == len(block["columns"]) for row in block["rows"] if "section" not in row)


def test_every_section_but_find_is_in_a_view_and_a_view_opens_with_what_was_open_there_last(session):
    states = {}
    board = Board(session, states.__setitem__)
    views = [key for key, _ in VIEWS]
    assert {section.view for section in SECTIONS} == {*views, ""}
    assert [(each["key"], each["open"]) for each in states["board"]["views"]] == [(key, key == "overview") for key in views]
    for seq, tab in enumerate(("roofline", "devices", "find"), 1):
        board.answer({"verb": "open", "tab": tab, "view": "v", "seq": seq})
    opens = {each["key"]: each["opens"] for each in states["board"]["views"]}
    first = {key: next(section.key for section in SECTIONS if section.view == key) for key in views}
    assert opens == first | {"time": "roofline", "communication": "devices"}
    assert not any(each["open"] for each in states["board"]["views"])  # Find is opened by its own button


def test_the_overview_has_memory_time_and_communication_with_their_largest_and_the_way_to_each():
    plan = Plan(build("gpt"), "data:4 model:2", "batch:data; d_ff:model", hardware="TPU v5e 2x4")
    blocks = table_state(Facts(plan.report()), "overview")["blocks"]
    assert [each["title"] for each in blocks[::2]] == ["Memory", "Time", "Communication"]
    assert [each["controls"][0]["name"] for each in blocks[1::2]] == [f"view-{key}" for key, _ in VIEWS[1:4]]
    tiles, largest, spent, _, sent, _ = blocks
    assert tiles["picture"]["svg"].startswith("<svg")
    assert [len(row["cells"]) for row in largest["rows"]] == [3] * FEW
    assert sum(row["cells"][1]["share"] for row in spent["rows"] if "hidden" not in row["cells"][0]) == pytest.approx(1, abs=1e-4)
    assert sum(row["cells"][1]["share"] for row in sent["rows"]) == pytest.approx(1, abs=1e-4)


def test_rows_of_the_overview_with_the_same_path_have_their_role():
    plan = Plan(build("gpt"), "stage:2 data:2 model:2", "d_ff:model", pipeline="stages:2 micro_batches:4")
    names = [row["cells"][0]["path"] for row in table_state(Facts(plan.report()), "overview")["blocks"][1]["rows"]]
    assert len({*names}) == FEW
    assert any(name.endswith(" (gradient)") for name in names)


def test_without_hardware_the_overview_offers_to_choose_some(session):
    block = table_state(Facts(session.report), "overview")["blocks"][2]
    assert (block["title"], block["controls"][0]["name"]) == ("Time", "hw-chip")


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
