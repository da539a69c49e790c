"""The board in a cell, its static picture, and that widgets load no engine."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripted import HeldRunner
from workbench.app.notebook.board_cell import Workbench
from workbench.exercises import Exercise
from workbench.models import build
from workbench.public_plan import Plan
from workbench.visualize.charts.chart import bokeh_script
from workbench.widgets.front_end import module_text
from workbench.widgets.glossary.glossary import glossary_state
from workbench.widgets.tabs.board_tabs import SECTIONS, section_of


@pytest.fixture(scope="module")
def gpt_bench():
    return Workbench(Plan(build("gpt"), "data:4 model:2", "batch:data; d_ff:model; heads:model", hardware="TPU v5e 2x4"))


def test_its_text_is_stable(session):
    bench = Workbench(session)
    assert repr(bench) == "Workbench(two-layer on data:4 model:2: batch:data)"


def test_where_no_kernel_is_a_static_picture_stays(session):
    data, _ = Workbench(session)._repr_mimebundle_()
    assert data["text/plain"] == "Workbench(two-layer on data:4 model:2: batch:data)"
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "<code>batch 16 → 4</code>" in data["text/html"]
    assert "<script" not in data["text/html"]


def test_the_static_picture_has_the_question_and_its_goals():
    exercise = Exercise.load(Path(__file__).parents[2] / "lessons" / "one_product" / "exercise.json")
    asked, chosen = (
        (Workbench(exercise=exercise, question=each)._repr_mimebundle_() or ({}, {}))[0]["text/html"] for each in ("share", "which")
    )
    assert exercise["share"].ask in asked
    assert "<div>✗ No product is duplicated on several devices.</div><div>✓ In a step nothing leaves a device.</div>" in asked
    assert "<div>1. <code>J</code>, which is summed over</div>" in chosen


@pytest.mark.compile
@pytest.mark.parametrize("tab", [section.key for section in SECTIONS])
def test_a_notebook_with_a_board_stays_small_whatever_tab_is_open(gpt_bench, tab):
    """What nbconvert keeps of it: the state of the widget, and the outputs of the cell. JSON may take one byte in twelve more."""
    gpt_bench.gesture = {"verb": "open", "tab": tab, "view": "v", "seq": 1}
    data, _ = gpt_bench._repr_mimebundle_()
    kept = json.dumps([gpt_bench.get_state(), data])
    assert len(kept) < 55_000
    assert module_text()[:2000] not in kept
    assert section_of(tab).label in data["text/html"]


def test_a_cell_that_shows_the_board_gets_the_module_once_and_then_each_part_that_changes(session, monkeypatch):
    bench, sent = Workbench(session, runner=HeldRunner()), []
    monkeypatch.setattr(bench, "send", sent.append)
    session.undo()
    assert sent == []
    bench._handle_custom_msg({"want": "module"}, [])
    assert sent[0]["module"] == module_text()
    assert set(sent[0]["parts"]) == {"board", "table", "live"}
    bench._handle_custom_msg({"want": "parts"}, [])
    assert "module" not in sent[1]
    bench._handle_custom_msg({"want": "library"}, [])
    assert sent.pop() == {"library": bokeh_script()}
    bench.gesture = {"verb": "drop", "dim": "hidden", "source": "", "target": "model", "view": "v", "seq": 1}
    assert [each["parts"]["board"]["answer"] for each in sent if "board" in each.get("parts", ())][-1] == {"view": "v", "seq": 1}


def test_names_in_the_static_picture_are_escaped(two_layer):
    data, _ = Workbench(Plan(two_layer, "data:4", name="<img src=x>"))._repr_mimebundle_()
    assert "<img" not in data["text/html"]


def test_a_gesture_from_the_page_moves_the_plan(session):
    bench = Workbench(session, runner=HeldRunner())
    bench.gesture = {"verb": "drop", "dim": "hidden", "source": "", "target": "model", "view": "v", "seq": 1}
    assert str(bench.plan.layout) == "batch:data; hidden:model"
    assert bench.board["answer"] == {"view": "v", "seq": 1}
    assert bench.report is session.report


def test_the_module_is_one_file_that_fetches_nothing():
    text = module_text()
    assert text.count(" as default") == 1
    assert re.findall(r"^import\b|\bimport\(", text, re.MULTILINE) == []
    read = [term["link"] for group in glossary_state()["groups"] for term in group["terms"]]  # a person may follow these
    for link in ("http://www.w3.org/2000/svg", *sorted(read, key=len, reverse=True)):
        text = text.replace(link, "")
    assert "http" not in text


def test_widgets_load_neither_the_engine_nor_panel():
    rooms = ("workbench.engine", "workbench.app", "panel", "bokeh")
    code = f"import sys, workbench.widgets; print([name for name in sys.modules if name.startswith({rooms})])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
