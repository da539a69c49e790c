"""The board's state is a pure function of a session: what is drawn, what may be dropped where, and why not."""

import json
from dataclasses import replace

import pytest

from tests.support.machines import flat
from workbench.errors import LayoutError
from workbench.plan.edits import ShardDim
from workbench.plan.mesh_edits import AddAxis, ResizeAxis
from workbench.reports.step_time import StepTime
from workbench.session.plan_history import Session
from workbench.widgets.board.board_state import Refusal, board_state
from workbench.widgets.board.figure_changes import figure_states
from workbench.widgets.board.key_figures import figures


def zone(state, axis):
    return next(each for each in state["zones"] if each["axis"] == axis)


def chip(state, dim, source=""):
    return next(each for each in zone(state, source)["chips"] if each["dim"] == dim)


def change(figure):
    return f"{figure['delta']['text']} {figure['delta']['tone']}" if figure["delta"] else ""


def test_every_dimension_stands_in_the_zones_of_its_axes(session):
    state = board_state(session)
    assert [each["axis"] for each in state["zones"]] == ["", "data", "model"]
    assert [each["dim"] for each in zone(state, "")["chips"]] == ["io", "hidden"]
    assert [each["dim"] for each in zone(state, "data")["chips"]] == ["batch"]
    assert zone(state, "model")["chips"] == []


def test_the_state_is_json_and_the_same_for_the_same_session(session):
    assert json.loads(json.dumps(board_state(session), allow_nan=False)) == board_state(session)


def test_a_chip_tells_whole_and_local_size_and_how_many_tensors_carry_it(session):
    batch, io = chip(board_state(session), "batch", "data"), chip(board_state(session), "io")
    assert (batch["size"], batch["carried"]) == ("16 → 4", "1")
    assert (io["size"], io["carried"]) == ("64", "3")


def test_a_drop_that_does_not_divide_is_barred_with_its_arithmetic(session):
    assert chip(board_state(session), "hidden")["illegal"] == {"data": {"move": "30 % 4 = 2", "add": "30 % 4 = 2"}}


def test_a_drop_on_an_axis_that_a_tensor_uses_is_barred_by_name(session):
    assert chip(board_state(session), "io")["illegal"]["data"]["move"] == "x has batch on data"
    session.apply(ShardDim("hidden", ("model",)))
    assert chip(board_state(session), "io")["illegal"]["model"]["move"] == "w has hidden on model"


def test_every_verdict_is_what_the_session_does(session):
    """The mark before the drop and the drop itself agree, for every chip, target and way."""
    from tests.support.gestures import edit_of

    session.apply(ShardDim("hidden", ("model",)))
    state, judged = board_state(session), 0
    for source in state["zones"]:
        for each in source["chips"]:
            for target in state["zones"]:
                for way, add in (("move", False), ("add", True)):
                    gesture = {"verb": "drop", "dim": each["dim"], "source": source["axis"], "target": target["axis"], "add": add}
                    try:
                        edit_of(gesture, session.plan, session.report).apply(session.plan)
                        legal = True
                    except LayoutError:
                        legal = False
                    judged += 1
                    assert legal == (way not in each["illegal"].get(target["axis"], {})), gesture
    assert judged == 18


def test_a_dimension_on_two_axes_has_numbered_chips_and_can_be_turned_around(session):
    session.apply(ShardDim("batch", ("data", "model")))
    state = board_state(session)
    major, minor = chip(state, "batch", "data"), chip(state, "batch", "model")
    assert (major["order"], minor["order"], major["size"]) == ("1", "2", "16 → 2")
    assert "Make model the major axis" in [item.get("label") for item in major["menu"]]


def test_the_menu_says_why_an_item_is_not_possible(session):
    menu = {item["label"]: item["reason"] for item in chip(board_state(session), "hidden")["menu"]}
    assert menu == {"Put on data": "30 % 4 = 2", "Put on model": None, "Rename…": None}


def test_axes_are_coloured_by_order_and_a_new_name_is_offered(session):
    session.apply(AddAxis("pipe", 1))
    state = board_state(session)
    assert [each["colour"] for each in state["zones"]] == [None, 0, 1, 2]
    assert state["spare"]["name"] == "expert"


def test_figures_tell_by_how_much_an_edit_moved_them(session):
    before = figures(session.report)
    session.apply(ShardDim("hidden", ("model",)))
    after = figures(session.report)
    now = {each["key"]: change(each) for each in figure_states(after, before)}
    back = {each["key"]: change(each) for each in figure_states(before, after)}
    assert (now["duplication"], back["duplication"]) == ("−1.00× good", "+1.00× bad")
    assert (now["memory"][-4:], back["memory"][-3:]) == ("good", "bad")
    assert [each["delta"] for each in figure_states(before, before)] == [None] * len(before)


def test_the_memory_bar_adds_up_to_the_peak(session):
    memory = figure_states(figures(session.report))[0]
    assert sum(part["share"] for part in memory["parts"]) == pytest.approx(1, abs=1e-4)


def test_a_predicted_step_time_is_shown_where_the_report_has_one(session):
    step = StepTime("TPU v5e 2x4", arithmetic=0.002, memory=0.001, launch=0.0, exposed=0.001, hidden=0.002, mfu=0.5, hfu=0.6)
    shown = {each["key"]: each for each in figure_states(figures(replace(session.report, step_time=step)))}
    assert shown["predicted"]["text"] == "4.00 ms"
    assert [(part["role"], part["share"]) for part in shown["predicted"]["parts"]] == [
        ("compute-bound", 0.5),
        ("memory-bound", 0.25),
        ("exposed communication", 0.25),
    ]
    assert (shown["predicted"]["apart"]["role"], shown["predicted"]["apart"]["text"]) == ("hidden communication", "2.00 ms")
    assert (shown["mfu"]["text"], shown["mfu"]["note"]) == ("50.0%", "HFU 60.0%")


@pytest.mark.parametrize(
    ("known", "note", "said"),
    [
        ({"calibrated": "some runs"}, "on TPU v5p 4x4x4", "on TPU v5p 4x4x4: "),
        ({"shares_of": "TPU v5e"}, "on TPU v5p 4x4x4, not calibrated", "on TPU v5p 4x4x4, uncalibrated, efficiencies of TPU v5e: "),
        ({}, "on TPU v5p 4x4x4, not calibrated", "on TPU v5p 4x4x4, not calibrated: "),
    ],
)
def test_a_step_time_says_that_no_run_of_its_chip_was_measured(session, known, note, said):
    step = StepTime("TPU v5p 4x4x4", 0.002, 0, 0, 0, 0, **known)
    shown = {each["key"]: each for each in figure_states(figures(replace(session.report, step_time=step)))}
    assert shown["predicted"]["note"] == note
    assert shown["predicted"]["title"].startswith(f"seconds of one step {said}compute-bound")


def test_a_higher_utilisation_is_good(session):
    slow, quick = (replace(session.report, step_time=StepTime("TPU v5e", 0.002, 0, 0, 0, 0, mfu=mfu, hfu=mfu)) for mfu in (0.4, 0.5))
    moved = {each["key"]: change(each) for each in figure_states(figures(quick), figures(slow))}
    assert moved["mfu"] == "+10.0% good"


def test_memory_is_set_against_that_of_the_chip(session):
    peak = session.report.memory.peak
    for room, tone, limit in ((2 * peak, "", None), (peak // 2, "bad", 0.5)):
        plan = session.plan.updated(hardware=flat("small", memory=room))
        memory = next(each for each in figure_states(figures(plan.report())) if each["key"] == "memory")
        assert memory["tone"] == tone
        assert ("does not fit" in memory["note"]) == bool(tone)
        assert (memory["limit"] and memory["limit"]["share"]) == pytest.approx(limit, abs=1e-4)
        assert sum(part["share"] for part in memory["parts"]) == pytest.approx(peak / max(peak, room), abs=1e-4)


def test_undo_names_the_edit_it_takes_back(session):
    assert board_state(session)["undo"] is None
    session.apply(ResizeAxis("model", 1))
    assert board_state(session)["undo"] == "Undo model:1"
    session.undo()
    assert board_state(session)["redo"] == "Redo model:1"


def test_a_refusal_carries_its_ways_out(session):
    refusal = Refusal(LayoutError("30 % 4 = 2", ["leave `io` whole"]), "data")
    assert board_state(session, refusal=refusal)["refusal"] == {
        "zone": "data",
        "message": "30 % 4 = 2",
        "ways_out": ["leave `io` whole"],
        "edits": [],
    }


def test_alike_layers_are_judged_once():
    """96 layers cost no more than one: the board stays quick on deep models."""
    from tests.support.programs import parameter, program
    from workbench.public_plan import Plan
    from workbench.widgets.board.drop_legality import distinct_arguments

    layers = (parameter(f"params/layers/{layer}/w1", d_model=8, d_ff=32) for layer in range(96))
    plan = Plan(program(*layers), "data:4 model:2", "params/layers/7/w1=[-, model]")
    assert [tensor.path for tensor in distinct_arguments(plan).arguments] == ["params/layers/0/w1", "params/layers/7/w1"]


def test_a_session_with_no_mesh_axes_still_has_a_board(two_layer):
    from workbench.public_plan import Plan

    state = board_state(Session(Plan(two_layer, "")))
    assert (state["mesh"], state["devices"], len(state["zones"])) == ("no mesh axes", "1 device", 1)
