"""The stage board without a browser: gestures become edits, what cannot be cut is refused where the hand was, and the figures move."""

import json

import pytest

from tests.support.machines import flat
from tests.support.packed_spans import read_spans
from tests.support.scripted import HeldRunner, measurement
from tests.support.stack import stack_program
from tests.widgets.test_board import Screen
from workbench.core.schedules import ALL_SCHEDULES
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.run_events import RunDone
from workbench.session.plan_history import Session
from workbench.widgets.board.key_figures import figures
from workbench.widgets.glossary.glossary import GROUPS
from workbench.widgets.pipeline.stage_edits import ZONE, propose_pipeline
from workbench.widgets.tabs.board_tabs import SECTIONS
from workbench.widgets.tabs.shown_stage import memory_of_stages, stages_state, traffic_of_stages

SLOW = flat("slow", flops=1e7, memory_bandwidth=1e8, devices=2)


@pytest.fixture(scope="module")
def program():
    """Seven blocks: six layers and the loss; a skip from the first layer to the fifth."""
    return stack_program()


@pytest.fixture
def screen(program):
    """The tab, over two stages."""
    found = Screen(Session(Plan(program, "stage:2", "", pipeline="stages:2 micro_batches:4", hardware=SLOW)))
    found.send("open", tab="pipeline")
    return found


def change(screen, change, value=""):
    return screen.send("pipeline", change=change, value=str(value), zone=ZONE)


def shown(screen):
    return json.loads(json.dumps(screen.shown["table"]["blocks"][0]["stages"], allow_nan=False))


def timeline(screen):
    return json.loads(json.dumps(screen.shown["table"]["blocks"][1], allow_nan=False))


def spans(screen, tier="predicted"):
    """The tasks of one tier in the chart of the step."""
    return [each for each in read_spans(*timeline(screen)["picture"]["charts"][0]["spans"]) if each.tier == tier]


def figure(screen, key):
    return next(each["text"] for each in shown(screen)["figures"] if each["key"] == key)


def spec(screen):
    return screen.board.session.plan.pipeline


def test_no_pipeline_is_an_invitation_and_one_button_makes_a_sensible_one_and_takes_it_away(program):
    screen = Screen(Session(Plan(program, "data:8", "batch:data")))
    screen.send("open", tab="pipeline")
    assert shown(screen)["kind"] == "none"
    assert shown(screen)["button"] == "Make a pipeline of 2 stages"
    change(screen, "make")
    assert str(screen.board.session.plan.mesh) == "stage:2 data:4"
    assert (spec(screen).stages, spec(screen).micro_batches, spec(screen).schedule) == (2, 2, "1f1b")
    assert screen.shown["board"]["undo"] == "Undo pipeline of 2 stages (2 edits)"
    assert change(screen, "remove")["mesh"] == "data:4"
    assert shown(screen)["kind"] == "none"


@pytest.mark.parametrize(
    ("mesh", "layout", "hardware", "axis", "stages"),
    [
        ("data:2 pipe:4", "batch:data", None, "pipe", 4),  # an axis that splits nothing
        ("data:2", "batch:data", flat("flat", devices=8), "stage", 2),  # devices that idle
        ("data:8", "batch:data", flat("flat", devices=8), "stage", 2),  # part of an axis
        ("data:1", "", None, "stage", 2),  # a new axis
    ],
)
def test_a_first_pipeline_goes_where_there_is_room(program, mesh, layout, hardware, axis, stages):
    start = propose_pipeline(Plan(program, mesh, layout, hardware=hardware))
    assert (start.spec.axis, start.spec.stages) == (axis, stages)


def test_of_idle_axes_the_one_named_after_stages_is_taken(program):
    start = propose_pipeline(Plan(program, "spare:2 pp:2 data:2", "batch:data"))
    assert start.spec.axis == "pp"


@pytest.mark.compile
def test_where_the_hardware_has_no_devices_to_spare_the_user_chooses_and_nothing_is_lost():
    plan = Plan(build("gpt", layers=3), "data:8", "batch:data", hardware=flat("flat", devices=8))
    screen = Screen(Session(plan))
    screen.send("open", tab="pipeline")
    state = shown(screen)
    assert (state["button"], state["problem"]) == (None, None)
    assert state["about"].startswith("The mesh takes 8 of the 8 devices of flat")
    few, many = state["choices"]
    assert few == {
        "value": "stage:2 data:4",
        "label": "2 stages, stage:2 data:4",
        "note": "2 stages on the same 8 devices: `data` goes from 8 to 4",
    }
    assert many["note"] == "2 stages on a new mesh axis: 2 × 8 = 16 devices, and flat has 8"
    refused = change(screen, "make")["refusal"]
    assert refused["message"] == state["about"]
    assert refused["ways_out"] == [few["note"], many["note"]]
    assert screen.board.session.plan == plan
    change(screen, "make", many["value"])
    assert str(screen.board.session.plan.mesh) == "stage:2 data:8"
    screen.send("undo")
    change(screen, "make", few["value"])
    assert str(screen.board.session.plan.mesh) == "stage:2 data:4"


def test_what_cannot_be_pipelined_says_why_and_offers_no_button(session):
    screen = Screen(session)
    screen.send("open", tab="pipeline")
    assert shown(screen)["button"] is None
    assert shown(screen)["problem"]["ways_out"]


def test_a_boundary_moves_alone_and_the_figures_with_it(screen):
    before = figure(screen, "step"), figure(screen, "bubble"), shown(screen)["board"]["starts"]
    state = change(screen, "boundary", "1 layers/1")
    assert spec(screen).boundaries == ("layers/1",)
    assert shown(screen)["board"]["starts"] == [1]
    assert (figure(screen, "step"), figure(screen, "bubble")) != before[:2]
    assert state["said"] == "stage 1 begins at layers/1"
    change(screen, "time")
    assert spec(screen).boundaries == ()
    assert (figure(screen, "step"), figure(screen, "bubble"), shown(screen)["board"]["starts"]) == before


def test_a_boundary_that_is_only_tried_is_seen_and_leaves_no_trace(screen):
    before, plan = figure(screen, "step"), screen.board.session.plan
    screen.send("try_boundary", value="1 layers/1", zone=ZONE)
    tried = figure(screen, "step")
    assert tried != before
    assert screen.board.session.plan is plan
    screen.send("try_boundary", value="", zone=ZONE)
    assert figure(screen, "step") == before
    change(screen, "boundary", "1 layers/1")
    assert figure(screen, "step") == tried


def test_a_skip_is_listed_with_its_bytes_and_sent_straight_to_its_reader(screen):
    assert shown(screen)["board"]["skips"] == []
    change(screen, "schedule", "interleaved")
    change(screen, "chunks", 3)
    [skip] = shown(screen)["board"]["skips"]
    assert (skip["from"], skip["text"]) == ("stage 0 chunk 0", "256 B")
    assert [head["facts"][-1]["label"] for head in shown(screen)["board"]["heads"]] == ["sends", "sends"]


def test_other_balances_are_one_step_each_and_are_compared(screen):
    change(screen, "memory")
    assert len(spec(screen).boundaries) == 1
    change(screen, "buckets")
    assert {each["key"]: each["on"] for each in shown(screen)["balances"]}["buckets"]
    assert "Lingvo" in shown(screen)["balances"][2]["note"]


@pytest.mark.parametrize("name", [schedule.name for schedule in ALL_SCHEDULES])
def test_every_schedule_can_be_chosen_and_drawn(screen, name):
    change(screen, "schedule", name)
    assert spec(screen).schedule == name
    step = screen.board.session.plan.report().pipeline.simulated
    tasks = [each for each in spans(screen) if each.number >= 0]
    assert len({(each.title, each.lane) for each in tasks}) == len(tasks) == len(step.spans)
    assert all(0 <= each.start < each.start + each.seconds <= step.seconds * 1.000001 for each in spans(screen))
    controls = {each["key"]: each for each in shown(screen)["controls"]}
    assert ("chunks" in controls) == next(each.loops for each in ALL_SCHEDULES if each.name == name)
    assert all(option["note"] for option in controls["schedule"]["options"])


def test_in_a_v_each_column_has_a_virtual_stage_of_the_way_up_and_one_of_the_way_down(screen):
    change(screen, "schedule", "zb_v")
    stages = spec(screen).stages
    pieces = shown(screen)["board"]["pieces"]
    assert [piece["stage"] for piece in pieces] == [*range(stages), *reversed(range(stages))]
    assert (pieces[stages]["name"], pieces[-1]["name"]) == (f"stage {stages - 1} chunk 1", "stage 0 chunk 1")
    refusal = change(screen, "chunks", 1)["refusal"]
    assert "has 2 chunks of layers a device" in refusal["message"]


def test_the_slider_holds_what_divides_the_batch_alone(screen):
    slider = next(each for each in shown(screen)["controls"] if each["key"] == "micro_batches")
    assert [option["value"] for option in slider["options"]] == ["1", "2", "4", "8"]
    change(screen, "micro_batches", 8)
    assert spec(screen).micro_batches == 8


def remats(screen):
    return [each["value"] for control in shown(screen)["controls"] if control["key"] == "remat" for each in control["options"]]


def test_the_first_stages_alone_can_recompute_and_with_fewer_stages_those_that_are_left(screen):
    assert remats(screen) == ["always", "first_1", "except_last", "never"]
    change(screen, "stages", 7)
    assert remats(screen) == ["always", "first_6", "first_5", "first_3", "first_1", "except_last", "never"]
    change(screen, "remat", "first_2")
    assert screen.shown["board"]["undo"] == "Undo recompute on the first 2 stages"
    assert remats(screen)[4] == "first_2"
    assert {each.lane for each in spans(screen) if each.share} == {"stage 0", "stage 1"}
    change(screen, "memory")
    assert spec(screen).remat == "first_2"
    change(screen, "stages", 2)
    assert spec(screen).remat == "always"


def test_one_program_for_all_stages_recomputes_on_all_or_none(screen):
    change(screen, "schedule", "gpipe")
    change(screen, "remat", "first_1")
    refusal = change(screen, "engine", "spmd")["refusal"]
    assert "recomputes on all or none" in refusal["message"]
    assert spec(screen).engine == "mpmd"
    change(screen, "remat", "always")
    change(screen, "engine", "spmd")
    assert remats(screen) == ["always", "except_last", "never"]


def test_recomputation_engine_and_axis_are_edits_too(screen):
    change(screen, "remat", "never")
    change(screen, "schedule", "gpipe")
    change(screen, "engine", "spmd")
    assert (spec(screen).remat, spec(screen).engine) == ("never", "spmd")
    assert screen.shown["board"]["undo"] == "Undo engine spmd"
    change(screen, "schedule", "gpipe")
    assert len(screen.board.session.edits) == 3  # a choice of what is chosen leaves no trace


@pytest.mark.parametrize(
    ("kind", "value", "said", "way"),
    [
        ("stages", 40, "40 stages need as many", "make stages 7"),
        ("stages", "many", "`many` is not a number of stages", "whole number"),
        ("micro_batches", 3, "8 % 3 = 2", "micro_batches 2 or 4"),
        ("boundary", "1 layers/99", "no block `layers/99`", "did you mean"),
        ("boundary", "7 layers/1", "no boundary `7`", "see the current stages"),
        ("boundary", "1 layers/0", "would be empty", "at least one block"),
        ("schedule", "zero bubble", "no schedule", "did you mean `zero_bubble`"),
        ("engine", "spmd", "schedule `1f1b` requires them to run different", "schedule:gpipe"),
        ("axis", "nowhere", "", ""),
        ("colour", "red", "no change of a pipeline `colour`", ""),
    ],
)
def test_what_is_wrong_is_said_where_the_hand_was_and_nothing_is_lost(screen, kind, value, said, way):
    plan = screen.board.session.plan
    refusal = change(screen, kind, value)["refusal"]
    if kind == "axis":  # a name that the mesh does not have is a new axis
        assert screen.board.session.plan.mesh.names == ("nowhere",)
        return
    assert refusal["zone"] == ZONE
    assert said in refusal["message"]
    assert way in " ".join(refusal["ways_out"])
    assert screen.board.session.plan is plan


def test_measured_tasks_stand_beside_the_predicted_ones_until_the_pipeline_is_another(program):
    runner = HeldRunner()
    plan = Plan(program, "stage:2", "", pipeline="stages:2 micro_batches:4", hardware=SLOW)
    screen = Screen(Session(plan), runner=runner)
    screen.send("open", tab="pipeline")
    screen.send("run", steps="2")
    runner.tell(RunDone(measurement(plan, 2)))
    assert len(spans(screen, "measured")) == len(spans(screen)) - 2  # two updates
    assert "1.23× of it" in timeline(screen)["note"]
    change(screen, "micro_batches", 8)
    assert spans(screen, "measured") == []
    assert timeline(screen)["note"] == ""
    screen.send("undo")
    assert spans(screen, "measured")


def test_the_head_tells_of_the_fullest_stage_and_not_of_the_whole_program(program):
    plan = Plan(program, "stage:2", "", pipeline="stages:2 micro_batches:4", hardware=SLOW)
    report = plan.report()
    found = {each.key: each for each in figures(report)}
    assert found["memory"].value == max(report.pipeline.simulated.peaks)
    assert found["predicted"].value == report.pipeline.seconds
    assert found["bubble"].value == report.pipeline.simulated.bubble
    assert found["duplication"].value == pytest.approx(1.0)
    assert {*found} - {"hfu"} <= {label for _, terms in GROUPS for term in terms for label in term.on}


def test_a_pipeline_of_one_stage_has_micro_batches_and_no_word_of_stages(program):
    report = Plan(program, "stage:1 data:2", "batch:data", pipeline="stages:1 micro_batches:4", hardware=SLOW).report()
    shown = figures(report)
    assert [figure.key for figure in shown] == ["predicted", "memory", "mfu", "sent", "flops", "duplication"]
    assert not any("stage" in f"{figure.label} {figure.note}" for figure in shown)
    assert stages_state(report, None) is None
    assert memory_of_stages(report, None) == traffic_of_stages(report, None) == []


BROKEN = {
    "more stages than blocks": (16, "stages:16 micro_batches:4", "has 7 blocks"),
    "more virtual stages than blocks": (2, "stages:2 micro_batches:4 schedule:interleaved chunks:4", "has 7 blocks"),
    "a boundary that is no block": (2, "stages:2 micro_batches:4 boundaries:nowhere", "There is no block `nowhere`"),
}
QUESTIONS = ("figure memory", "figure flops", "sent stage", "tensor params/0", "value params/0", "axis tensor 0 stage params/0")


@pytest.mark.parametrize("fault", BROKEN)
def test_a_pipeline_that_cannot_be_made_is_a_message_in_every_tab_and_no_traceback(program, fault, caplog):
    stages, text, words = BROKEN[fault]
    found = Screen(Session(Plan(program, f"stage:{stages}", "", pipeline=text)))
    for tab in (section.key for section in SECTIONS):
        found.send("open", tab=tab)
        assert not any("could not be made:" in json.dumps(each) for each in found.shown["table"]["blocks"]), tab
    found.send("open", tab="memory")
    assert words in json.dumps(found.shown["table"]["blocks"])
    found.send("select", path=program.arguments[0].path)
    for question in QUESTIONS:
        found.send("why", of=question)
    found.send("why", of="figure memory")
    assert words in found.shown["table"]["why"]["lead"][0]
    assert [record.getMessage() for record in caplog.records] == []
