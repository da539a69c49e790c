"""What is annotated where it is seen: results, partial sums, a source line, a box of a graph; offered, done, refused in words."""

import re

import pytest

from tests.support.gestures import edit_of, taken
from workbench.core.program import Program
from workbench.errors import LayoutError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.tensor_edits import COMPLETE_SUMS_REASON
from workbench.widgets.tabs.question_answers import why
from workbench.widgets.tabs.table_blocks import Paint
from workbench.widgets.tabs.tensor_table import result_rows
from workbench.widgets.tabs.value_table import value_blocks

MESH, LAYOUT = "data:4 model:2", "batch:data; hidden:model"
RESULT = {"of": "result", "path": "result/y", "rank": 2}
VALUE = {"of": "value", "path": "second/dot_general", "rank": 2}
BOX = {"of": "box", "path": "second/dot_general", "rank": None}


@pytest.fixture(scope="module")
def program() -> Program:
    """x[batch=16, io=64], w[io=64, hidden=32], v[hidden=32, io=64]; gives y and the gradients of w and v."""
    return build("two_layer", batch=16, io=64, hidden=32)


@pytest.fixture(scope="module")
def layers() -> Plan:
    return Plan(build("gpt", layers=2, seq=16, batch=8, scan=False), MESH, "batch:data; d_ff:model")


def line_of(plan: Plan, path: str) -> str:
    return next(value.source for value in plan.report().values if value.path == path)


def offers(plan: Plan, thing: dict) -> dict[str, dict]:
    """Of the menu of something whole: `io model` and the like, to the item."""
    found = {}
    for each in taken({"verb": "take", **thing}, plan, plan.report())["menu"]:
        found.update({f"{each['choices']} {option['label']}": option for option in each.get("options", ())} if "choices" in each else {})
        found.update({each["label"]: each} if "label" in each else {})
    return found


def made(plan: Plan, gesture: dict) -> str:
    """The layout after a gesture; the report is made, as a session does."""
    session = Session(plan)
    session.apply(edit_of(gesture, plan, session.report))
    return str(session.plan.layout)


def test_results_are_rows_and_those_that_become_arguments_are_counted(program, layers):
    rows = list(result_rows(Plan(program, MESH, LAYOUT).report(), Paint({}), [], []))
    assert [row["cells"][0]["path"] for row in rows[1:]] == ["result/dv", "result/dw", "result/y"]
    section, loss = result_rows(layers.report(), Paint({}), [], [])
    assert "carried to the next step" in section["section"]["note"]
    assert loss["subject"] == "loss"
    assert list(result_rows(layers.report(), Paint({}), ["nothing"], [])) == []
    assert len(list(result_rows(layers.report(), Paint({}), [], ["results"]))) == 1  # folded


@pytest.mark.parametrize(
    ("gesture", "statement"),
    [
        ({"verb": "own", **RESULT, "place": 1, "source": "*", "target": "model", "add": False}, "result/y=[?, model]"),
        ({"verb": "own_whole", **RESULT}, "result/y=[-, -]"),
        ({"verb": "annotate", **RESULT, "what": "keep_out", "place": 0, "axis": "data", "out": True}, "result/y=[?, ?] replicated:data"),
        ({"verb": "annotate", **VALUE, "what": "unreduced", "place": 0, "axis": "model", "left": True},
         "@/second/dot_general=[data, -] unreduced:model"),
    ],
)  # fmt: skip
def test_a_result_or_a_sum_is_annotated_as_one_would_write_it(program, gesture, statement):
    assert made(Plan(program, MESH, LAYOUT), gesture) == f"{LAYOUT}; {statement}"


def test_a_result_is_freed_again_and_lies_as_it_was_told(program):
    plan = Plan(program, MESH, f"{LAYOUT}; result/y=[-, model]")
    assert str(plan.report().results[2].sharding) == "[-, model]"
    assert made(plan, {"verb": "by_rules", **RESULT}) == LAYOUT
    with pytest.raises(LayoutError, match="is already sharded by propagation"):
        edit_of({"verb": "by_rules", **RESULT}, plan.updated(layout=LAYOUT), plan.report())


def test_a_partial_sum_is_offered_where_there_is_one_and_refused_in_words_where_not(program):
    plan = Plan(program, MESH, LAYOUT)
    report = plan.report()
    offered = offers(plan, BOX)
    assert offered["Partial sum over model"]["reason"] is None
    assert "no partial sum over data" in offered["Partial sum over data"]["reason"]
    with pytest.raises(LayoutError, match="has `batch` on mesh axis `data`"):
        edit_of(offered["Partial sum over data"]["gesture"], plan, report)
    whole = plan.updated(layout="batch:data")
    assert "no partial sum over model" in offers(whole, BOX)["Partial sum over model"]["reason"]
    with pytest.raises(LayoutError, match="is not a partial sum over mesh axis `model`"):
        made(whole, offers(whole, BOX)["Partial sum over model"]["gesture"])


@pytest.mark.parametrize("thing", [{"of": "tensor", "path": "w", "rank": 2}, RESULT], ids=lambda thing: thing["of"])
def test_what_a_step_hands_on_is_no_partial_sum(program, thing):
    plan = Plan(program, MESH, LAYOUT)
    offer = offers(plan, thing)["Partial sum over data"]
    assert offer["reason"] == COMPLETE_SUMS_REASON
    with pytest.raises(LayoutError, match="are complete sums"):
        edit_of(offer["gesture"], plan, plan.report())


def test_a_sum_that_was_left_is_done_again(program):
    plan = Plan(program, MESH, f"{LAYOUT}; @/second/dot_general=[data, -] unreduced:model")
    offer = offers(plan, BOX)["Partial sum over model"]
    assert offer["checked"]
    assert made(plan, offer["gesture"]) == f"{LAYOUT}; @/second/dot_general=[data, -]"
    assert "unreduced" not in made(plan, offers(plan, BOX)["io 64 model"]["gesture"])  # an axis that is wanted for a dimension


def test_a_source_line_is_picked_for_all_that_it_makes(program, layers):
    plan = Plan(program, MESH, LAYOUT)
    line = line_of(plan, "second/dot_general")
    rows = {row["subject"]: row["cells"][6] for row in value_blocks(plan.report(), Paint({}))[0]["rows"]}
    assert rows["second/dot_general"]["line"] == line
    assert "line" not in rows["grad/second/transpose"]  # of the backward pass: a constraint names the forward line
    thing = {"of": "line", "path": line, "rank": 2}
    assert made(plan, offers(plan, thing)["io 64 model"]["gesture"]) == f"{LAYOUT}; @{line}=[?, model]"
    held = plan.updated(layout=f"{LAYOUT}; @{line}=[?, model]")
    assert made(held, offers(held, thing)["Remove the constraint"]["gesture"]) == LAYOUT
    many = line_of(layers, "layers/0/mlp/up/dot_general")
    heading = taken({"verb": "take", "of": "line", "path": many, "rank": 3}, layers, layers.report())["menu"][0]["heading"]
    assert re.fullmatch(rf"Constrain line {re.escape(many)}: \d+ values are made", heading)  # of both layers


def test_a_box_stands_for_all_layers_and_for_arguments(program, layers):
    box = {"of": "box", "path": "layers/1/mlp/up/dot_general", "rank": None}
    assert made(layers, offers(layers, box)["batch 8 whole"]["gesture"]).endswith("@/layers/*/mlp/up/dot_general=[-, ?, ?]")
    plan = Plan(program, MESH, LAYOUT)
    assert made(plan, offers(plan, {"of": "box", "path": "w", "rank": None})["io 64 data"]["gesture"]) == f"{LAYOUT}; w=[data, model]"
    two = offers(plan.updated(layout="w=[data, -]"), {"of": "box", "path": "w"})
    assert two["io 64 data+model"]["reason"] is None
    assert two["io 64 data"]["checked"]


@pytest.mark.parametrize("kind", ["line", "box", "result", "value", "tensor"])
def test_what_is_not_there_is_said_with_the_names_that_are(program, kind):
    plan = Plan(program, MESH, LAYOUT)
    with pytest.raises(LayoutError, match=r"There is no .* `nowhere`"):
        taken({"verb": "take", "of": kind, "path": "nowhere", "rank": 2}, plan, plan.report())


def test_an_axis_of_a_result_is_explained(program):
    answer = why("axis result 0 data result/y", Plan(program, MESH, LAYOUT).report(), Paint({"data": 0}))
    assert answer["title"] == "Why is batch of result/y on data?"
    assert "`batch:data` on x" in answer["lead"][0]
