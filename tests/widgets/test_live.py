"""The Run panel's state: a value moved on by events."""

import json
from math import inf, nan

from tests.widgets.scripted import measurement
from workbench.widgets.curves import MOST_POINTS, curve
from workbench.widgets.live import Live
from workbench.widgets.run_panel import run_state


def test_events_move_a_run_from_start_to_end(session):
    live = Live("running", report=session.report)
    live = live.after({"event": "progress", "stage": "compiling", "fraction": 0.25})
    assert (live.stage, live.fraction) == ("compiling", 0.25)
    for step in (1, 2):
        live = live.after({"event": "step", "step": step, "of": 4, "seconds": 0.01, "loss": 3.0 - step})
    assert (live.stage, live.fraction, live.losses) == ("step 2 of 4", 0.5, (2.0, 1.0))
    live = live.after({"event": "done", "measurement": measurement(session.plan)})
    assert (live.phase, live.running) == ("done", False)


def test_a_run_may_end_in_words(session):
    assert run_state(Live("running").after({"event": "error", "message": "out of memory"}), session.plan)["message"] == "out of memory"
    assert run_state(Live("running").after({"event": "cancelled"}), session.plan)["phase"] == "cancelled"


def test_results_set_measured_beside_predicted(session):
    live = Live("running", report=session.report).after({"event": "done", "measurement": measurement(session.plan)})
    facts = {fact["label"]: (fact["text"], fact["note"]) for fact in run_state(live, session.plan)["facts"]}
    assert facts["measured step"] == ("11.0 ms", "median of 3; 10.2 ms to 11.8 ms")
    assert facts["predicted step"] == ("5.00 ms", "measured is 2.20× of it")
    assert facts["shard shapes"] == ("3 of 3", "agree with the arrays that existed")
    assert all(row["cells"][4] == {"text": "equal", "tone": "good"} for row in run_state(live, session.plan)["blocks"][0]["rows"])


def test_disagreements_are_listed_first(session):
    live = Live("running", report=session.report).after({"event": "done", "measurement": measurement(session.plan, wrong=2)})
    first = run_state(live, session.plan)["blocks"][0]
    assert first["title"] == "Shard shapes that disagree"
    assert [row["key"] for row in first["rows"]] == ["x", "w"]


def test_compiled_collectives_that_differ_say_by_how_much(session):
    predicted = session.report.by_axis_and_kind
    assert set(predicted) == {(("data",), "all-reduce")}
    doubled = {key: 2 * count for key, count in predicted.items()} | {(("model",), "all-gather"): 64}
    live = Live("running", report=session.report).after({"event": "done", "measurement": measurement(session.plan, compiled=doubled)})
    rows = [row["cells"] for row in run_state(live, session.plan)["blocks"][0]["rows"]]
    assert [(cells[0]["axes"][0]["name"], cells[1], cells[4]["text"]) for cells in rows] == [
        ("data", "reduce", "2.00×"),
        ("model", "all-gather", "not predicted"),
    ]


def test_a_curve_fills_its_box_and_keeps_its_ends():
    drawn = curve("loss", tuple(float(i) for i in range(1001)), str)["points"]
    assert len(drawn) <= MOST_POINTS + 1
    assert (drawn[0], drawn[-1]) == ([0.0, 100.0], [100.0, 0.0])


def test_a_loss_that_is_not_a_number_is_left_out_of_the_curve(session):
    live = Live("running", losses=(1.0, nan, inf, 2.0), seconds=(0.01, 0.02))
    state = run_state(live, session.plan)
    json.dumps(state, allow_nan=False)
    assert [each["label"] for each in state["curves"]] == ["loss", "step time"]
    assert len(state["curves"][0]["points"]) == 2
    assert run_state(Live("running", losses=(nan, nan)), session.plan)["curves"] == []
