"""The board in a JupyterLab cell: the same module in its other host."""

import pytest
from playwright.sync_api import expect

from tests.ui.jupyterlab import READY, run_cell, write_notebook
from tests.ui.test_page import drag, grip

pytestmark = pytest.mark.ui

SETUP = """
import workbench as wb
from workbench.models import build
bench = wb.Workbench(wb.Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", "batch:data"))
bench
"""


def test_a_drop_in_the_cell_moves_the_plan_in_the_kernel(lab, guarded):
    url, folder = lab
    write_notebook(folder / "board.ipynb", SETUP, "print('PLAN', bench.plan.layout)")
    guarded.goto(f"{url}/lab/tree/board.ipynb?reset")
    guarded.wait_for_function(READY, timeout=60_000)
    run_cell(guarded, 0)
    guarded.locator(".wb .chip").first.wait_for(timeout=60_000)
    drag(guarded, "hidden", "model")
    expect(grip(guarded, "hidden", "model")).to_contain_text("30 → 15")
    grip(guarded, "hidden", "model").focus()
    guarded.keyboard.press("b")  # JupyterLab would insert a cell
    run_cell(guarded, 1)
    expect(guarded.locator(".jp-OutputArea-output", has_text="PLAN")).to_contain_text("batch:data; hidden:model")
    expect(guarded.locator(".jp-Cell")).to_have_count(2)
