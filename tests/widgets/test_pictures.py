"""The tabs made of pictures, and what a hand opens in them."""

import json
from dataclasses import replace

import pytest

from tests.support.details import with_details
from tests.support.steps import CURVE, GRAPH, KERNELS, step_report
from workbench.analysis.tier_comparison import Comparison
from workbench.errors import WorkbenchError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.compiled import Compiled, CompiledKernel, CompiledMemory
from workbench.session.plan_history import Session
from workbench.visualize.draw.collapse_scopes import choose_open_scopes
from workbench.widgets.board.board import Board
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.gestures.gesture_codec import read_gesture
from workbench.widgets.tabs.picture_tabs import (
    device_blocks,
    graph_blocks,
    kernel_blocks,
    memory_blocks,
    roofline_blocks,
    step_blocks,
    traffic_blocks,
)
from workbench.widgets.tabs.shown_stage import Views
from workbench.widgets.tabs.table_blocks import Paint, as_json

PAINT = Paint({"data": 0, "model": 1})
MADE = Compiled(
    "TPU v5e 2x4",
    8,
    1.0,
    CompiledMemory(arguments=2048, outputs=0, aliased=0, temporary=6144),
    (),
    kernels=(CompiledKernel("fusion.1", "fusion", 12, "layers/mlp/dot_general", "toy.py:7", 80e-6, 0, 0),),
)


def beside(stale: bool = False) -> ComparisonState:
    return ComparisonState(Comparison(step_report(), MADE), stale=stale)


def every_tab(report, comparison_state=None):
    return {
        "devices": device_blocks(report),
        "communication": traffic_blocks(report, comparison_state, PAINT),
        "memory": memory_blocks(report, comparison_state, Views()),
        "step": step_blocks(report, comparison_state, report),
        "roofline": roofline_blocks(report),
        "graph": graph_blocks(report, Views()),
    }


def heads(blocks) -> list[str]:
    return [column["label"] for block in blocks for column in block["columns"]]


def test_each_tab_is_json_with_a_picture_and_its_twin():
    for tab, blocks in every_tab(step_report(), beside()).items():
        whole = [as_json(block, lambda _name: True) for block in blocks]
        pictures = [block["picture"] for block in whole if block["picture"]]
        assert pictures, tab
        for picture in pictures:
            assert picture["svg"].startswith("<svg")
            assert picture["text"].partition("\n")[0] == picture["about"]
        json.dumps(whole, allow_nan=False)


def test_a_selected_argument_is_the_one_whose_parts_the_devices_show():
    report = step_report()
    assert "params/layers/1/w2" in device_blocks(report, "params/layers/1/w2")[0]["picture"]["about"]
    assert "params/layers/0/w2" in device_blocks(report, "params/layers/*/w2")[0]["picture"]["about"]
    unselected = device_blocks(report)[0]
    assert "params/" in unselected["picture"]["about"]
    assert "Select a tensor" in unselected["note"]


def test_the_devices_offer_each_tensor_once_for_all_layers():
    report = step_report()
    picker = device_blocks(report, "params/layers/1/w2")[0]["picker"]
    values = [option["value"] for option in picker["options"]]
    assert picker["chosen"] == "params/layers/1/w2"
    assert values.count("params/layers/1/w2") == 1
    assert "params/layers/0/w2" not in values
    label = next(option["label"] for option in picker["options"] if option["value"] == picker["chosen"])
    assert label.startswith("params/layers/*/w2 [")


def test_a_moment_of_the_step_shows_what_is_alive_there_and_again_the_peak():
    report = step_report()
    views = Views().at("4", report)
    assert views.place == 4
    blocks = memory_blocks(report, None, views)
    assert "live at this moment" in heads(blocks)
    assert "at grad/layers/1/mlp" in blocks[1]["picture"]["about"]
    assert views.at("4", report).place is None


@pytest.mark.parametrize("place", ["7", "-1", "x", "", None, "9" * 40])
def test_a_moment_that_the_step_does_not_have_is_refused(place):
    with pytest.raises(WorkbenchError, match="The step has no place"):
        Views().at(read_gesture({"verb": "moment", "place": place}).place, step_report())


def test_a_place_beyond_the_end_of_another_plan_is_its_peak():
    short = with_details(step_report(), memory_curve=replace(CURVE, paths=CURVE.paths[:3]))
    assert Views(place=5).place_in(short) is None


def test_a_scope_opens_and_closes_from_those_that_are_open_at_first():
    report = step_report()
    first = choose_open_scopes(GRAPH)
    opened = Views().toggle_scope("loss", report)
    assert opened.opened == first | {"loss"}
    assert opened.toggle_scope("loss", report).opened == first


def test_a_scope_that_the_graph_does_not_have_is_refused():
    with pytest.raises(WorkbenchError, match="The graph has no scope `nowhere`"):
        Views().toggle_scope("nowhere", step_report())


def test_what_was_compiled_stands_beside_what_was_predicted():
    report = step_report()
    assert {"predicted", "compiled", "measured"} <= set(heads(memory_blocks(report, beside(), Views())))
    assert {"predicted", "compiled", "measured"} <= set(heads(step_blocks(report, beside(), report)))
    (kernels,) = kernel_blocks(report, beside())
    column = [each["label"] for each in kernels["columns"]].index("compiled")
    shown = {row["subject"]: row["cells"][column]["text"] for row in kernels["rows"]}
    assert shown["layers/mlp/dot_general"] == "960 µs"
    assert shown["optimizer/add"] == "–"


def test_what_was_compiled_of_a_plan_before_is_not_shown_as_of_this_one():
    assert "compiled" not in heads(kernel_blocks(step_report(), beside(stale=True)))


def test_the_kernels_are_listed_longest_first_with_what_bounds_them():
    (kernels,) = kernel_blocks(step_report(), None)
    assert [row["subject"] for row in kernels["rows"]] == [each.path for each in KERNELS]
    bound = [each["label"] for each in kernels["columns"]].index("bound by")
    assert [row["cells"][bound]["text"] for row in kernels["rows"]] == ["products", "products", "memory", "memory"]


def test_without_hardware_the_step_says_what_to_do():
    bare = replace(step_report(), step_time=None)
    for blocks in (step_blocks(bare, None, bare), roofline_blocks(bare), kernel_blocks(bare, None)):
        assert [(each["note"][:15], each["controls"][0]["name"]) for each in blocks] == [("Choose hardware", "hw-chip")]


def test_a_text_and_the_picture_behind_a_chart_come_when_they_are_asked_for():
    shown = {}
    plan = Plan(build("two_layer", batch=16, io=64, hidden=32), "data:4 model:2", "batch:data; hidden:model")
    board = Board(Session(plan), lambda part, state: shown.update({part: state}))

    def forms(**gesture) -> dict[str, tuple[bool, bool]]:
        board.answer({"view": "v", "seq": board.state()["answer"]["seq"] + 1, **gesture})
        pictures = [block["picture"] for block in shown["table"]["blocks"] if block["picture"]]
        return {each["name"]: (each["svg"] is not None, each["text"] is not None) for each in pictures}

    assert forms(verb="open", tab="memory") == {"memory over the step": (False, False), "memory map": (True, False)}
    assert forms(verb="picture", name="memory over the step") == {"memory over the step": (True, True), "memory map": (True, False)}
    asked = forms(verb="drop", dim="hidden", target="", source="model")
    assert asked["memory over the step"] == (True, True), "as long as the tab is open"
    forms(verb="open", tab="step")
    assert forms(verb="open", tab="memory")["memory over the step"] == (False, False)
    assert all(block["picture"]["text"] for block in board.whole_table()["blocks"] if block["picture"])


def test_the_board_opens_what_a_hand_asks_for_and_refuses_the_rest():
    shown = {}
    plan = Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", "batch:data")
    board = Board(Session(plan), lambda part, state: shown.update({part: state}))
    board.answer({"verb": "open", "tab": "graph", "view": "v", "seq": 1})
    opens = shown["table"]["blocks"][-1]["picture"]["opens"]
    assert opens == {"verb": "expand", "field": "scope"}
    board.answer({"verb": "expand", "scope": "nowhere", "view": "v", "seq": 2})
    assert "no scope `nowhere`" in shown["board"]["refusal"]["message"]
    board.answer({"verb": "open", "tab": "memory", "view": "v", "seq": 3})
    board.answer({"verb": "moment", "place": "1", "view": "v", "seq": 4})
    assert shown["board"]["refusal"] is None
    assert "live at this moment" in heads(shown["table"]["blocks"])
