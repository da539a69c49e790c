"""The tab *Find* of a board over a real search of a small program, done in a thread: from the form to a plan taken and taken back."""

import json
import time

import pytest

from tests.support.scripted import HeldRunner, ScriptedRunner
from tests.widgets.test_board import Screen
from workbench.core.layout import Layout
from workbench.exercises.plan_figures import mfu
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.plan.edits import SetLayout
from workbench.public_plan import Plan, as_public
from workbench.search.evaluator import Evaluator
from workbench.search.explain import make_ledger
from workbench.session.plan_history import Session
from workbench.units import format_bytes, format_seconds, format_share
from workbench.widgets.find.board_compilers import NO_PARTITIONER
from workbench.widgets.find.found_explained import ledger_block, signed_cell

PATIENCE = "300"
"""Seconds in which a search ends on a busy machine."""


class Board(Screen):
    """A board with its tab *Find* open."""

    def __init__(self, session, **options):
        super().__init__(session, **options)
        self.send("open", tab="find")

    @property
    def blocks(self):
        return self.shown["table"]["blocks"]

    @property
    def form(self):
        return self.blocks[0]["find"]

    @property
    def badge(self):
        return next(each["badge"] for each in self.shown["board"]["tabs"] if each["key"] == "find")

    def block(self, part):
        """The first block that has this part, or this title."""
        return next((each for each in self.blocks if each.get(part) or each["title"].startswith(part)), None)

    def wait_for(self, is_so, seconds=30):
        until = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < until, self.shown["table"]
            time.sleep(0.02)


@pytest.fixture(scope="module")
def mlp():
    return build("mnist", batch=64)


@pytest.fixture
def board(mlp):
    board = Board(Session(Plan(mlp, "data:8", "batch:data", hardware=parse_hardware("TPU v5e 2x4"))), runner=ScriptedRunner())
    yield board
    board.board.close()


@pytest.fixture
def found(board):
    """After a search to its end."""
    board.send("find", on="8 TPU v5e", within=PATIENCE)
    board.wait_for(lambda: board.form["phase"] == "done")
    return board


def numbers(board):
    """Of the plans of the front."""
    progress = board.board._find.finder.progress
    return [progress.number_of(each) for each, _ in progress.front]


def table(board):
    """The table of the plans, and of each row its cells by their columns."""
    shown = next(each for each in board.blocks if "rows" in each.get("found", {}))
    labels = [each["label"] for each in shown["columns"]]
    return shown, [{"key": row["key"], **dict(zip(labels, map(text_of, row["cells"]), strict=True))} for row in shown["rows"]]


def text_of(cell):
    return cell.get("text", "") if isinstance(cell, dict) else cell


def test_before_a_search_a_sentence_invites_and_the_present_plan_is_a_row_with_the_board_s_figures(board):
    assert (board.form["phase"], board.form["label"], board.form["tone"]) == ("idle", "Find", "muted")
    values = {each["name"]: each["value"] for each in board.form["fields"] if not each["group"]}
    assert values == {"objective": "seconds", "on": "8 TPU v5e", "limit": ""}
    _, [row] = table(board)
    report = board.board.session.report
    assert (row["step"], row["memory"]) == (format_seconds(report.seconds), format_bytes(report.peak))
    assert (row["changes"], row["tier"], row["MFU"]) == ("present plan", "planned", format_share(report.step_time.mfu))


def test_what_is_rarely_chosen_stands_apart_as_a_search_has_it_by_itself(board):
    fields = {each["name"]: each for each in board.form["fields"]}
    assert [name for name, each in fields.items() if each["group"] == "Advanced"] == ["precision", "offload", "boundaries", "keep", "wide"]
    assert fields["remat"]["options"] == [{"name": "", "label": "any"}, {"name": "none", "label": "none"}]  # it has no layers
    assert fields["precision"]["options"][0] == {"name": "", "label": "as traced"}
    assert [each["label"] for each in fields["precision"]["options"][1:]] == ["as traced or bfloat16", "bfloat16", "bfloat16 parameters"]
    assert board.form["options"] == "Options"
    board.send("find", on="8 H800", axes="data:x")
    assert board.form["options"] == "Options (1 set)"


@pytest.mark.compile
def test_precision_the_optimisers_state_and_a_price_are_in_what_is_found():
    plan = Plan(build("gpt", layers=2), "data:8", "batch:data", hardware=parse_hardware("TPU v5e 2x4"))
    board = Board(Session(plan), runner=ScriptedRunner())
    wanted = {"stages": "1", "precision": "bfloat16", "offload": "optimizer_state", "boundaries": "any"}
    board.send("find", on="8 TPU v5e, 2.4 $/h", within=PATIENCE, axes="data", **wanted)
    board.wait_for(lambda: board.form["phase"] == "done")
    assert board.form["message"] == ""
    board.send("choose_found", plan=numbers(board)[0])
    assert board.block("found")["found"]["card"]["title"].endswith("precision bfloat16, optimizer state offloaded")
    figures = board.board._find.finder.progress.front[0][1]
    assert figures.dollars == pytest.approx(2.4 * 8 * figures.seconds * 1000 / 3600)
    board.send("take_found", plan=numbers(board)[0])
    assert str(board.board.session.plan.hardware) == "TPU v5e 2x4, 2.4 $/h"
    board.wait_for(lambda: board.block("found")["found"]["card"]["present"])
    board.board.close()


@pytest.mark.compile
def test_activations_on_the_host_are_in_what_is_found():
    board = Board(Session(Plan(build("gpt", layers=2), "data:8", "batch:data", hardware="TPU v5e 2x4")), runner=ScriptedRunner())
    options = {each["name"]: each for each in board.form["fields"]}["remat"]["options"]
    assert {"name": "offloaded", "label": "activations on the host"} in options
    board.send("find", on="8 TPU v5e", within=PATIENCE, axes="data", stages="1", remat="offloaded")
    board.wait_for(lambda: board.form["phase"] == "done")
    assert board.form["message"] == ""
    board.send("choose_found", plan=numbers(board)[0])
    assert "remat with activations on the host" in board.block("found")["found"]["card"]["title"]
    board.send("take_found", plan=numbers(board)[0])
    assert str(board.board.session.plan.program.remat) == "offload_dots_no_batch"
    board.board.close()


def test_what_a_program_cannot_have_is_said_under_the_form(board):
    board.send("find", on="8 TPU v5e", within=PATIENCE, offload="any")
    board.wait_for(lambda: board.form["phase"] == "failed")
    assert board.form["message"] == "The optimizer of `mnist` keeps only scalars as state, so there is nothing to keep in host memory."
    assert board.form["ways_out"] == ["leave `offload` out", "choose an optimizer with moments, `optax.adamw(3e-4)`"]


@pytest.mark.compile
def test_the_front_is_a_picture_and_a_table_and_all_of_it_is_json(found):
    found.send("picture", name="front by memory")
    picture = found.block("picture")["picture"]
    shown, rows = table(found)
    assert picture["opens"] == {"verb": "take_found", "field": "plan"}
    assert all(f'data-opens="{number}"' in picture["svg"] for number in numbers(found))
    assert "present plan" in picture["svg"]
    assert json.loads(json.dumps(found.shown["table"], allow_nan=False)) == found.shown["table"]
    assert "exposed communication" in picture["svg"], "the parts of a step are under the pointer"
    assert found.form["present"].startswith("present plan ")
    assert "best found" in found.form["present"]
    assert found.form["gap"]["proved"] or found.form["gap"]["share"] < 1
    assert [row["changes"] for row in rows].count("present plan") == 1, "the present plan is always a row"
    assert set(numbers(found)) <= {row["key"] for row in rows}
    assert shown["found"]["rows"]["gestures"].keys() == {row["key"] for row in rows if row["changes"] != "present plan"}
    found.wait_for(lambda: found.badge == str(len(numbers(found))))
    names = [each["picture"]["name"] for each in found.blocks if each["picture"]]
    assert ("best and bound" in names) == (len(found.board._find.finder.progress.states) > 1)


def test_every_row_has_the_figures_of_the_report_of_its_plan(found):
    """Also the present plan's, and of what is previewed; planned here, by XLA in `test_verified_rows.py`."""
    finder = found.board._find.finder
    shown, rows = table(found)
    seen = set()
    for row in rows:
        plan = found.board.session.plan if row["changes"] == "present plan" else finder.plan_of(finder.candidate(row["key"]))
        report = as_public(plan).report().prediction
        assert (row["step"], row["memory"]) == (format_seconds(report.seconds), format_bytes(report.peak)), row
        assert (row["MFU"], row["tier"]) == (format_share(mfu(report)), "planned"), row
        seen.add(plan.pipeline is not None)
        changes = shown["found"]["rows"]["previews"][row["key"]]["changes"]
        assert row["changes"] == "present plan" or changes.startswith("changes: ") or not changes
    assert len(rows) > 5


@pytest.mark.compile
def test_a_plan_is_chosen_taken_as_one_step_and_taken_back(found):
    before, number = found.board.session.plan, numbers(found)[0]
    found.send("choose_found", plan=number)
    card = found.block("found")["found"]["card"]
    assert card["acts"][0]["gesture"] == {"verb": "take_found", "plan": number}
    assert not card["present"]
    found.wait_for(lambda: found.block("What it changes") is not None)
    state = found.send("take_found", plan=number)
    assert state["undo"] == f"Undo open the plan found: {card['title']}"
    assert found.board.session.plan != before
    found.wait_for(lambda: found.block("found")["found"]["card"]["present"])
    assert found.block("found")["found"]["card"]["acts"][0]["gesture"] == {"verb": "undo"}
    found.wait_for(lambda: found.block("What it changes: A: start of the search, B: current plan") is not None)
    assert table(found)[1][[row["key"] for row in table(found)[1]].index(number)]["changes"] == "present plan"
    report = found.board.session.report.prediction
    figures = found.board._find.finder.progress.figures_of(found.board._find.finder.candidate(number))
    assert report.peak == figures.memory
    assert report.seconds == pytest.approx(figures.seconds)
    found.send("take_found", plan=number)
    assert len(found.board.session.nodes) == 2, "a plan that is there already is not taken again"
    found.send("undo")
    assert found.board.session.plan == before
    assert found.form["phase"] == "done", "what was found stays"


@pytest.mark.compile
def test_why_this_one_is_a_ledger_that_adds_up_and_what_each_decision_does(found):
    front = numbers(found)
    found.send("explain_found", plan=front[-1], than=front[0] if len(front) > 1 else "0")
    assert found.block("found")["found"]["card"]["waiting"]
    found.wait_for(lambda: not found.block("found")["found"]["card"]["waiting"])
    assert found.block("Alternatives")["rows"]
    changed = next(row for row in found.block("Alternatives")["rows"] if row["cells"][-1])
    found.send(**changed["cells"][-1]["acts"][0]["gesture"])
    assert found.block("found")["found"]["card"]["title"] != "", "a plan that was only tried can be chosen, too"


def test_the_compilers_are_asked_about_the_chosen_plan_beside_the_search(board):
    board.send("find", on="8 TPU v5e", within=PATIENCE, stages="1", micro_batches="1")
    board.wait_for(lambda: board.form["phase"] == "done")
    number = numbers(board)[0]
    board.send("choose_found", plan=number)
    labels = [each["label"] for each in board.block("found")["found"]["card"]["acts"]]
    assert labels == ["Use this plan", "Verify with compilers", "Why this one?", "Close"]
    assert board.block("Compiler results") is None
    board.send(**board.block("found")["found"]["card"]["acts"][1]["gesture"])
    board.wait_for(lambda: not board.block("found")["found"]["card"]["waiting"])
    planned, partitioned, compiled = (each["cells"] for each in board.block("Compiler results")["rows"])
    assert planned[1] == format_seconds(board.board._find.finder.progress.found[int(number)][1].seconds)
    assert partitioned[-1]["text"] == NO_PARTITIONER
    assert compiled[4]["text"] == "+50%"
    assert board.block("found")["found"]["card"]["acts"][1]["label"] == "Verify with compilers"
    board.send("choose_found", plan=number)
    assert board.block("Compiler results") is None


@pytest.mark.compile
def test_the_plan_before_stands_first_among_the_found_and_can_be_held_against(board):
    board.board.session.apply(SetLayout(Layout("batch:data")))
    board.send("find", on="8 TPU v5e", within=PATIENCE, until="proved")
    board.wait_for(lambda: board.form["phase"] == "done")
    progress = board.board._find.finder.progress
    assert progress.found[0][0] == progress.start
    assert progress.state.is_proved
    best = progress.number_of(progress.state.best[0])
    board.send("choose_found", plan=best)
    card = board.block("found")["found"]["card"]
    if progress.start != progress.state.best[0]:
        assert card["than"]["options"][0]["label"].startswith("the plan before: ")
        board.send("explain_found", plan=best, than="0")
        board.wait_for(lambda: not board.block("found")["found"]["card"]["waiting"])
        rows = board.block("Why this plan")["rows"]
        assert rows[0]["cells"][0]["text"] == f"from {progress.start}"


@pytest.mark.compile
def test_contradictory_pins_are_said_with_what_would_have_to_give_way(board):
    board.send("find", on="8 TPU v5e", stages="1", schedule="zero_bubble", within=PATIENCE)
    board.wait_for(lambda: board.form["phase"] in ("done", "failed"))
    assert board.form["message"] == "No plan meets `schedule zero_bubble` and `stage 1` together."
    labels = [each["label"] for each in board.form["acts"]]
    assert labels == ["Remove: schedule zero_bubble", "Remove: stage 1"]
    board.send(**board.form["acts"][0]["gesture"])
    board.wait_for(lambda: board.form["phase"] == "done")
    fields = {each["name"]: each["value"] for each in board.form["fields"]}
    assert (fields["schedule"], fields["stages"]) == ("", "1")
    assert table(board)[1]


@pytest.mark.compile
def test_a_clash_is_said_with_a_button_that_finds_a_plan(board):
    board.send("find", on="8 TPU v5e", limit="1 KiB", within=PATIENCE)
    board.wait_for(lambda: board.form["phase"] == "done")
    assert board.form["message"] == "No plan meets `at most 1.00 KiB a device`."
    [act] = board.form["acts"]
    assert act["label"].startswith("Allow at most")
    board.send(**act["gesture"])
    board.wait_for(lambda: board.form["phase"] == "done")
    assert board.form["acts"] == []
    assert table(board)[1]


def test_stop_is_answered_at_once_and_keeps_what_was_found(board):
    board.send("find", on="8 TPU v5e", within="600", axes="data model")
    board.wait_for(lambda: board.block("picture") is not None or board.form["phase"] == "done")
    board.send("stop_finding")
    assert board.form["phase"] in ("stopped", "done")
    assert not board.form["running"]
    assert board.block("picture") is not None


def test_news_of_a_search_go_to_the_page_only_where_they_are_seen(board):
    board.send("open", tab="notes")
    board.send("find", on="8 TPU v5e", within=PATIENCE)
    board.wait_for(lambda: board.board._find.finder.progress.phase == "done")
    assert board.shown["table"]["tab"] == "notes"
    board.wait_for(lambda: board.badge != "…")


def test_what_is_not_there_is_refused_over_the_tables(board):
    for verb, fields in (
        ("choose_found", {"plan": "7"}),
        ("take_found", {"plan": "x"}),
        ("explain_found", {}),
        ("relax", {"place": "0"}),
        ("pin_choice", {"decision": "mesh"}),
        ("verify_found", {}),
    ):
        refusal = board.send(verb, **fields)["refusal"]
        assert refusal["zone"] == "tables"
        assert refusal["ways_out"] == ["search a wider space" if verb == "pin_choice" else "search again"]


def test_a_board_without_a_runner_says_that_it_cannot_search(mlp):
    board = Board(Session(Plan(mlp, "data:8", "batch:data")))
    assert [each["note"] for each in board.blocks] == ["This board cannot search for plans."]


def test_the_process_starts_while_the_form_is_filled_in(mlp):
    runner = HeldRunner()
    board = Board(Session(Plan(mlp, "data:8", "batch:data")), runner=runner)
    board.board.answer({"verb": "find", "ahead": True})
    assert runner.expected == board.board.session.plan


def test_a_ledger_has_both_ends_and_a_line_for_each_step_between(found):
    progress = found.board._find.finder.progress
    start, end = progress.found[0][0], progress.state.best[0]
    ledger = make_ledger(Evaluator(progress.space), start, end)
    rows = ledger_block(ledger)["rows"]
    assert [rows[0]["cells"][0]["text"], rows[-1]["cells"][0]["text"]] == [f"from {start}", f"to {end}"]
    assert [row["cells"][0]["text"] for row in rows[1:-1]] == [f"{each.before} → {each.after}" for each in ledger.lines]


@pytest.mark.parametrize(
    ("value", "unit", "cell"),
    [(0.0, "s", ("same", "muted")), (1e-3, "s", ("+1.00 ms", "bad")), (-2048.0, "B", ("−2.00 KiB", "good"))],
)
def test_less_is_better(value, unit, cell):
    found = signed_cell(value, unit)
    assert (found["text"], found["tone"]) == cell


def test_only_a_present_plan_that_is_not_the_best_asks_why_not(found):
    """In one place for each row: the best is the one in bold."""
    for number in [row["key"] for row in table(found)[1] if row["changes"] != "present plan"][:2]:
        found.send("take_found", plan=number)
        found.wait_for(lambda number=number: any((row["key"], row["changes"]) == (number, "present plan") for row in table(found)[1]))
        shown, rows = table(found)
        bold = [any(isinstance(cell, dict) and cell.get("tone") == "strong" for cell in row["cells"][:5]) for row in shown["rows"]]
        labels = [row["cells"][-1]["acts"][-1]["label"] for row in shown["rows"] if row["cells"][-1].get("acts")]
        expected = ["Why not?" if row["changes"] == "present plan" and not best else "Why?" for row, best in zip(rows, bold, strict=True)]
        assert sum(bold) == 1
        assert labels == expected
    assert "Why not?" in labels
