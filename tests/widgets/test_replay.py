"""The Propagation tab without a page: its steps, conflicts and fewest statements; answers that come late."""

import threading
import time

import pytest

from tests.support.programs import mlp_report
from workbench.errors import PartitionError, WorkbenchError
from workbench.models import build
from workbench.propagation.explain import recorded_propagation
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.board import Board
from workbench.widgets.gestures.gesture_codec import read_gesture
from workbench.widgets.tabs.propagation_tab import NO_RECORD, NOTHING, Replay, replay_blocks
from workbench.widgets.tabs.question_answers import why
from workbench.widgets.tabs.table_blocks import Paint

PAINT = Paint({"data": 0, "model": 1})
LAYOUT = "batch:data p1; w=[-, data]; hidden:model"


@pytest.fixture(scope="module")
def report():
    return Plan(build("two_layer", batch=16, io=64, hidden=32), "data:4 model:2", LAYOUT).report()


def has_axis(block) -> dict[str, str]:
    """What has an axis so far, by its path: the step that gave it."""
    return {row["cells"][0]["path"]: row["cells"][1]["text"] for row in block["rows"]}


def test_the_first_step_shows_what_was_put_by_hand_alone(report):
    slider, _, so_far, *_ = replay_blocks(report, PAINT, Replay())
    assert slider["replay"]["start"] == "By hand, before the first step: 3 statements on 3 values."
    assert has_axis(so_far) == {"x": "by hand", "w": "by hand", "v": "by hand"}


def test_each_step_adds_what_it_reached_and_says_so(report):
    replay = report.propagation
    before = has_axis(replay_blocks(report, PAINT, Replay())[2])
    for step in replay.steps[:5]:
        slider, picture, so_far, *_ = replay_blocks(report, PAINT, Replay(step.number))
        fresh = [row["cells"][0]["path"] for row in so_far["rows"] if row["tone"] == "fresh"]
        assert [line["direction"] for line in slider["replay"]["lines"]] == [move.direction for move in step.axis_propagations]
        assert fresh == [replay.values[step.axis_propagations[0].target].path]
        assert set(before) <= set(has_axis(so_far))
        assert picture["picture"]["about"].startswith("two-layer on data:4 model:2")
        before = has_axis(so_far)


def test_alike_places_of_repeated_layers_have_the_name_that_the_tensors_have():
    plan = Plan(build("gpt", scan=False, layers=3), "data:2 model:2", "batch:data; d_ff:model")
    names = has_axis(replay_blocks(plan.report(), PAINT, Replay())[2])
    assert "params/layers[0..2]/mlp/w1" in names
    assert not [name for name in names if name.startswith("params/layers/")]


def test_the_last_step_lies_as_the_plan_does(report):
    blocks = replay_blocks(report, PAINT, Replay(None))
    assert blocks[0]["replay"]["step"] == blocks[0]["replay"]["last"] == len(report.propagation.steps)
    assert set(has_axis(blocks[2])) >= {value.path for value in report.values if value.sharding.axes}


def test_a_constraint_is_there_by_hand_before_its_value_has_it(report):
    plan = report.plan.updated(layout="@/second/dot_general=[data, ?]")
    before, after = (has_axis(replay_blocks(plan.report(), PAINT, Replay(step))[2]) for step in (0, 2))
    assert before == {"second/dot_general": "by hand"}
    assert after["second/dot_general"] == "2"


def test_a_conflict_names_both_sides_and_edits_that_were_tried(report):
    conflicts = replay_blocks(report, PAINT, Replay())[3]
    has_its_way, lost, why_so, turned = conflicts["rows"][0]["cells"]
    assert (has_its_way["text"], lost["text"]) == ("`w=[-, data]` on w", "`batch:data p1` on x, priority 1")
    assert "priority 0 precedes 1" in why_so["text"]
    assert "w → by the rules" in [act["label"] for act in turned["acts"]]


def test_the_fewest_statements_stand_beside_the_present_ones_and_are_one_edit():
    plan = Plan(build("two_layer", batch=16, io=64, hidden=32), "data:4 model:2", "batch:data; w=[-, model]; v=[model, -]")
    shown: dict = {}
    board = Board(Session(plan), lambda part, state: shown.update({part: state}))
    for seq, gesture in enumerate([{"verb": "open", "tab": "propagation"}, {"verb": "fewest"}]):
        board.answer({**gesture, "view": "v", "seq": seq})
    act = until(lambda: found_act(shown["table"]["blocks"], "Make these 2 the layout"))
    board.answer({**act["gesture"], "view": "v", "seq": 9})
    assert str(board.session.plan.layout) == "batch:data; hidden:model"
    board.answer({"verb": "undo", "view": "v", "seq": 10})
    assert board.session.plan == plan


def found_act(blocks, label: str) -> dict | None:
    cells = (cell for block in blocks for row in block["rows"] for cell in row["cells"] if isinstance(cell, dict))
    return next((act for cell in cells for act in cell.get("acts", ()) if act["label"] == label), None)


def until(look, seconds: float = 20.0):
    """What `look` finds in the end; answers come from a thread."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("it never came")


def test_a_plan_without_statements_or_records_says_so(report):
    empty = report.plan.updated(layout="").report()
    note, graph = replay_blocks(empty, PAINT, Replay())
    assert note["note"] == NOTHING
    assert 'data-subject="first/dot_general"' in graph["picture"]["made"].svg  # to begin from
    assert [block["note"] for block in replay_blocks(mlp_report("d_ff:model"), PAINT, Replay())] == [NO_RECORD]


@pytest.mark.parametrize("step", [-1, "2", True, 1.5])
def test_a_step_that_is_none_is_refused(report, step):
    with pytest.raises(WorkbenchError, match="is not a step"):
        read_gesture({"verb": "step", "step": step})


def test_an_edit_that_was_not_found_for_this_plan_is_refused(report):
    shown: dict = {}
    board = Board(Session(report.plan), lambda part, state: shown.update({part: state}))
    board.answer({"verb": "decide", "edit": "w → by the rules", "zone": "tables", "view": "v", "seq": 1})
    assert "was found for another plan" in shown["board"]["refusal"]["message"]


def test_an_axis_is_explained_by_its_statement_its_way_and_the_wish_that_lost(report):
    answer = why("axis value 1 data first/dot_general", report, PAINT)
    assert answer["title"] == "Why is hidden of first/dot_general on data?"
    assert answer["lead"][0].startswith("`data` is from `w=[-, data]` on w.")
    way, lost = answer["blocks"]
    assert [row["cells"][1] for row in way["rows"]] == ["↓ forward"]
    assert "`batch:data p1` on x" in lost["rows"][0]["cells"][1]["text"]
    assert "w → by the rules" in [act["label"] for act in lost["rows"][0]["cells"][2]["acts"]]


@pytest.mark.parametrize(
    "of", ["axis", "axis value", "axis value x data w", "axis value 0 data gone", "axis value 9 data first/dot_general"]
)
def test_an_axis_that_is_not_there_has_no_answer(report, of):
    assert why(of, report, PAINT) is None


def test_a_late_answer_is_told_when_it_is_there_and_one_of_another_report_never(report):
    told, go = threading.Event(), threading.Event()
    background = BackgroundQueries(lambda work: work(), told.set)

    def slow() -> str:
        go.wait(10)
        return "done"

    assert background.ask(report, "slow", slow, patience=0.0) is None
    go.set()
    assert told.wait(10)
    assert background.ask(report, "slow", slow) == "done"
    assert background.answers_of(report) == {"slow": "done"}
    assert background.answers_of(mlp_report()) == {}


def test_what_goes_wrong_aside_is_told_to_who_asked(report):
    def broken() -> None:
        raise WorkbenchError("It cannot be.")

    with pytest.raises(WorkbenchError, match="It cannot be"):
        BackgroundQueries(lambda work: work(), lambda: None).ask(report, "broken", broken, patience=10.0)


def test_what_cannot_be_recorded_is_told_in_the_tab_and_in_every_answer(report, monkeypatch):
    asked = []

    class Ended:
        def ask(self, *_):
            asked.append(1)
            raise PartitionError("Shardy itself ended.", ["change the constraint"])

    monkeypatch.setattr(recorded_propagation, "recorder", Ended)
    again = report.plan.report()
    told = "Shardy itself ended.\n  Try: change the constraint."
    background = BackgroundQueries(lambda work: work(), lambda: None)
    with pytest.raises(PartitionError):
        background.ask(again, "propagation", lambda: again.propagation, patience=60.0)
    for _ in range(3):
        assert [block["note"] for block in replay_blocks(again, PAINT, Replay(), background)] == [told]
    assert len(asked) == 1
    for of in ("axis value 1 data first/dot_general", "tensor w", "value first/dot_general"):
        assert told in [block["note"] for block in why(of, again, PAINT)["blocks"]], of


def test_conflicts_are_counted_beside_the_slider(report):
    count = len(report.propagation.conflicts)
    assert replay_blocks(report, PAINT, Replay())[0]["replay"]["conflicts"] == f"{count} conflict{'s' * (count != 1)}"
    calm = report.plan.updated(layout="batch:data").report()
    assert replay_blocks(calm, PAINT, Replay())[0]["replay"]["conflicts"] == ""
