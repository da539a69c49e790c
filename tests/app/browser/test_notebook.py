"""The board in a JupyterLab cell: the same module in its other host."""

from playwright.sync_api import expect

from tests.app.browser.test_page import drag, grip
from tests.support import charts
from tests.support.jupyterlab import READY, open_lab, run_cell, write_notebook
from tests.support.tabs import open_tab

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
    charts.drawn(open_tab(guarded, "memory"))  # the kernel has sent BokehJS
    grip(guarded, "hidden", "model").focus()
    guarded.keyboard.press("b")  # JupyterLab would insert a cell
    run_cell(guarded, 1)
    expect(guarded.locator("[data-mime-type='application/vnd.jupyter.stdout']")).to_contain_text("PLAN batch:data; hidden:model")
    expect(guarded.locator(".jp-Cell")).to_have_count(2)


def test_a_saved_notebook_is_small_and_shows_a_still_picture_where_its_kernel_is_gone(lab, guarded):
    url, folder = lab
    write_notebook(folder / "saved.ipynb", SETUP)
    open_lab(guarded, url, "saved.ipynb")
    guarded.wait_for_function(READY, timeout=60_000)
    run_cell(guarded, 0)
    guarded.locator(".wb .chip").first.wait_for(timeout=60_000)
    guarded.evaluate("() => jupyterapp.shell.currentWidget.context.save().then(() => 1)")
    assert len((folder / "saved.ipynb").read_bytes()) < 20_000
    guarded.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown().then(() => 1)")
    open_lab(guarded, url, "saved.ipynb")
    picture = guarded.locator(".jp-OutputArea-output table").first
    expect(picture).to_contain_text("Memory per device")
    expect(guarded.locator(".jp-OutputArea-output")).to_contain_text("batch 16 → 4")
    expect(guarded.locator(".wb")).to_have_count(0)
