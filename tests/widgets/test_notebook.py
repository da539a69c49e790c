"""The board in a cell, its static picture, and that widgets load no engine."""

import subprocess
import sys

from tests.widgets.scripted import HeldRunner
from workbench.widgets import Workbench
from workbench.widgets.module import module_text


def test_its_text_is_stable(session):
    bench = Workbench(session)
    assert repr(bench) == "Workbench(two-layer on data:4 model:2: batch:data)"


def test_where_no_kernel_is_a_static_picture_stays(session):
    data, _ = Workbench(session)._repr_mimebundle_()
    assert data["text/plain"] == "Workbench(two-layer on data:4 model:2: batch:data)"
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "<code>batch 16 → 4</code>" in data["text/html"]
    assert "<script" not in data["text/html"]


def test_names_in_the_static_picture_are_escaped(two_layer):
    from workbench.plan import Plan

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
    assert text.count("export default") == 1
    assert "import " not in text.split("*/")[0].replace("no imports", "")
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_widgets_load_neither_the_engine_nor_panel():
    rooms = ("workbench.engine", "workbench.app", "panel", "bokeh")
    code = f"import sys, workbench.widgets; print([name for name in sys.modules if name.startswith({rooms})])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
