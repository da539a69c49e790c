"""Annotations by gesture: open dimensions, rounds, axes kept out, groups, barriers; offered, judged, marked and taken back."""

import pytest

from tests.support.gestures import edit_of, taken
from workbench.core.program import Program
from workbench.errors import LayoutError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.board_state import board_state
from workbench.widgets.tabs.table_blocks import Paint
from workbench.widgets.tabs.tensor_table import tensor_blocks
from workbench.widgets.tabs.value_table import value_blocks

VALUE = {"of": "value", "path": "first/dot_general", "rank": 2}
TENSOR = {"of": "tensor", "path": "w", "rank": 2}


@pytest.fixture(scope="module")
def program() -> Program:
    """x[batch=16, io=64], w[io=64, hidden=32], v[hidden=32, io=64]."""
    return build("two_layer", batch=16, io=64, hidden=32)


def planned(program: Program, layout: str) -> Plan:
    return Plan(program, "data:4 model:2", layout)


def annotate(thing: dict, what: str, **fields) -> dict:
    return {"verb": "annotate", **thing, "what": what, "place": 0, **fields}


def offered(plan: Plan, thing: dict, place: int) -> dict[str, dict]:
    """The menu of a chip: what is written on an item, or on its row and option, to the item."""
    report = plan.report()
    found = {}
    for item in taken({**thing, "place": place, "source": "*"}, plan, report)["menu"]:
        found.update({f"{item['choices']} {each['label']}": each for each in item.get("options", ())} if "choices" in item else {})
        found.update({item["label"]: item} if "label" in item else {})
    return found


@pytest.mark.parametrize(
    ("before", "gesture", "after"),
    [
        ("w=[data, -]", annotate(TENSOR, "open", open=True), "w=[data?, -]"),
        ("w=[data?, - ]", annotate(TENSOR, "open", open=False), "w=[data, -]"),
        ("", annotate(TENSOR, "open", place=1, open=True), "w=[-, ?]"),
        ("io:data", annotate(TENSOR, "priority", priority=2), "io:data; w=[data p2, -]"),
        ("w=[-, ?]", annotate(TENSOR, "keep_out", axis="model", out=True), "w=[-, ?] replicated:model"),
        ("w=[-, ?] replicated:model", annotate(TENSOR, "keep_out", axis="model", out=False), "w=[-, ?]"),
        ("", annotate(VALUE, "priority", priority=1), "@/first/dot_general=[? p1, ?]"),
        ("", annotate(VALUE, "keep_out", axis="data", out=True), "@/first/dot_general=[?, ?] replicated:data"),
        ("@first/dot_general=[?, ?] replicated:data", annotate(VALUE, "keep_out", axis="data", out=False), ""),
        ("", annotate(VALUE, "tie", name="grad/first/select_n"), "group[@/first/dot_general, @grad/first/select_n]"),
        ("", annotate(VALUE, "barrier", allows="forward"), "barrier[@/first/dot_general] allows:forward"),
        ("barrier[@first/dot_general]", annotate(VALUE, "barrier", allows="backward"), "barrier[@first/dot_general] allows:backward"),
        ("barrier[w]", annotate(TENSOR, "barrier", allows=""), ""),
        ("batch:data", {"verb": "prioritize", "dim": "batch", "priority": 3}, "batch:data p3"),
        ("group[w, @grad/first/transpose]", {"verb": "untie", "group": "group[w, @grad/first/transpose]"}, ""),
        ("barrier[@first/dot_general]", {"verb": "unbar", "at": "@first/dot_general"}, ""),
    ],
    ids=lambda each: each if isinstance(each, str) else each.get("what", each["verb"]),
)
def test_a_gesture_annotates_as_one_would_write_it(program, before, gesture, after):
    plan = planned(program, before)
    assert str(edit_of(gesture, plan, plan.report()).apply(plan).layout) == after


def test_a_drop_on_an_open_or_late_tensor_keeps_what_its_other_dimensions_say(program):
    plan = planned(program, "w=[model? p1, ?] replicated:data")
    edit = edit_of({"verb": "own", **TENSOR, "place": 1, "source": "*", "target": "data"}, plan, plan.report())
    assert str(edit) == "w → [model? p1, data]"


@pytest.mark.parametrize(
    "gesture",
    [
        annotate(TENSOR, "dance"),
        annotate(TENSOR, "priority", priority=-1),
        annotate(TENSOR, "priority", priority=True),
        annotate(TENSOR, "keep_out", axis="pipe", out=True),
        annotate(TENSOR, "tie", name="x"),
        annotate(VALUE, "tie", name=""),
        annotate(VALUE, "tie", name="gone"),
        annotate(VALUE, "barrier", allows="sideways"),
        {"verb": "untie", "group": "group[a, b]"},
        {"verb": "prioritize", "dim": "io", "priority": 1},
    ],
    ids=str,
)
def test_what_cannot_be_annotated_is_refused_in_words(program, gesture):
    plan = planned(program, "batch:data")
    with pytest.raises(LayoutError):
        edit_of(gesture, plan, plan.report()).apply(plan)


def test_the_menu_judges_an_annotation_before_it_is_made_as_it_is_judged_after(program):
    plan = planned(program, "w=[data, ?]")
    report = plan.report()
    menu = offered(plan, TENSOR, 0)
    assert "both on a dimension and as replicated" in menu["Keep out data"]["reason"]
    with pytest.raises(LayoutError, match="both on a dimension and as replicated"):
        edit_of(menu["Keep out data"]["gesture"], plan, report).apply(plan)
    assert menu["Keep out model"]["reason"] is None


def test_the_menu_shows_what_is_set(program):
    menu = offered(planned(program, "batch:data p1; w=[data? p2, ?] replicated:model; barrier[w] allows:backward"), TENSOR, 0)
    assert "No further axes on io" in menu
    assert [label for label, each in menu.items() if each.get("checked")] == [
        *("Priority of io 2", "Keep out model", "Propagation barrier backward"),
    ]


def test_a_rule_is_late_from_the_board_too(program):
    plan = planned(program, "batch:data p1")
    chip = next(chip for zone in board_state(Session(plan))["zones"] for chip in zone["chips"] if chip["dim"] == "batch")
    assert [mark["text"] for mark in chip["marks"]] == ["p1"]
    rounds = next(item for item in chip["menu"] if "choices" in item)
    assert [option["label"] for option in rounds["options"] if option["checked"]] == ["1"]


def test_what_is_set_is_marked_on_the_chips_and_in_the_row(program):
    report = planned(program, "hidden:model p1; w=[data?, model]; group[w, @grad/first/transpose]; barrier[@first/relu/max]").report()
    cells = {row["subject"]: row["cells"][1] for row in tensor_blocks(report, Paint({}))[0]["rows"] if row["subject"]}
    assert [[mark["text"] for mark in chip["marks"]] for chip in cells["w"]["chips"]] == [["?"], []]
    assert [[mark["text"] for mark in chip["marks"]] for chip in cells["v"]["chips"]] == [["p1"], []]
    assert cells["w"]["given"] == "[data?, model]"
    assert [tag["label"] for tag in cells["w"]["tags"]] == ["tied [w, @grad/first/transpose]"]
    values = {row["subject"]: row["cells"][1] for row in value_blocks(report, Paint({}))[0]["rows"]}
    assert [tag["label"] for tag in values["first/relu/max"]["tags"]] == ["stops here"]
    for tag in (*cells["w"]["tags"], *values["first/relu/max"]["tags"]):
        plan = edit_of(tag["gesture"], report.plan, report).apply(report.plan)
        assert len(plan.layout.statements) == len(report.plan.layout.statements) - 1


def test_a_constraint_by_source_line_is_found_on_the_values_of_that_line(program):
    value = next(value for value in planned(program, "batch:data").report().values if value.path == "first/dot_general")
    report = planned(program, f"batch:data; @{value.source}=[-, model]").report()
    row = next(row for row in value_blocks(report, Paint({}))[0]["rows"] if row["subject"] == value.path)
    assert row["cells"][1]["own"] == f"constraint {value.source}"
    freed = edit_of({"verb": "by_rules", **VALUE}, report.plan, report).apply(report.plan)
    assert str(freed.layout) == "batch:data"
