"""The board in a JupyterLab cell: the same module in its other host."""

import json
from pathlib import Path

from nbconvert import HTMLExporter
from playwright.sync_api import Page, expect

from tests.app.browser.test_page import drag, grip
from tests.support import charts
from tests.support.jupyterlab import READY, command, open_lab, run_cell, write_notebook
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


def saved(page: Page, file: Path) -> dict:
    """The notebook as saved now."""
    page.evaluate("() => jupyterapp.shell.currentWidget.context.save().then(() => 1)")
    return json.loads(file.read_text())


def picture_in(notebook: dict) -> str:
    return "".join(notebook["cells"][0]["outputs"][0]["data"]["text/html"])


def test_an_edit_is_in_the_notebook_when_it_is_saved_restarted_reopened_and_converted(lab, guarded):
    url, folder = lab
    file = folder / "kept.ipynb"
    write_notebook(file, SETUP)
    open_lab(guarded, url, file.name)
    guarded.wait_for_function(READY, timeout=60_000)
    run_cell(guarded, 0)
    guarded.locator(".wb .chip").first.wait_for(timeout=60_000)
    drag(guarded, "hidden", "model")
    line = guarded.locator(".wb-kept")
    expect(line).to_contain_text("1 edit not in the code of this cell")
    guarded.wait_for_function("() => JSON.stringify(jupyterapp.shell.currentWidget.model.toJSON()).includes('hidden 30 → 15')")
    expect(guarded.locator(".wb")).to_have_count(1)  # the board was not drawn anew
    notebook = saved(guarded, file)
    assert "hidden 30 → 15" in picture_in(notebook)
    assert notebook["cells"][0]["metadata"]["sharding-workbench"]["plan"]["layout"]["rules"] == {"batch": "data", "hidden": "model"}
    assert "hidden 30 → 15" in HTMLExporter().from_filename(str(file))[0]

    guarded.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart().then(() => 1)")
    expect(line).to_contain_text("Run the cell again")  # nobody has clicked
    guarded.wait_for_function(READY, timeout=60_000)
    run_cell(guarded, 0)
    guarded.locator(".wb-kept").get_by_role("button", name="Continue").click(timeout=60_000)
    expect(grip(guarded, "hidden", "model")).to_contain_text("30 → 15")
    guarded.locator(".wb-kept").get_by_role("button", name="Write to cell").click()
    expect(guarded.locator(".wb-kept")).to_contain_text("Written to the cell.")
    guarded.wait_for_function("() => JSON.stringify(jupyterapp.shell.currentWidget.model.toJSON()).includes('hidden 30 → 15')")
    source = "".join(saved(guarded, file)["cells"][0]["source"])
    assert source == SETUP.replace('"batch:data"', '"batch:data; hidden:model"')

    guarded.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown().then(() => 1)")
    open_lab(guarded, url, file.name)
    expect(guarded.locator(".jp-OutputArea-output")).to_contain_text("hidden 30 → 15")


def test_one_plan_is_listed_once_in_the_sidebar_also_after_an_edit(lab, guarded):
    url, folder = lab
    write_notebook(
        folder / "once.ipynb",
        SETUP.replace("bench = wb.Workbench(", "plan = (").replace("\nbench\n", "\nbench = wb.Workbench(plan); bench\n"),
    )
    open_lab(guarded, url, "once.ipynb")
    guarded.evaluate("() => jupyterapp.serviceManager.sessions.shutdownAll().then(() => 1)")
    open_lab(guarded, url, "once.ipynb")
    guarded.wait_for_function(READY, timeout=60_000)
    run_cell(guarded, 0)
    guarded.locator(".wb .chip").first.wait_for(timeout=60_000)
    drag(guarded, "hidden", "model")
    command(guarded, "sharding-workbench:live")
    rows = guarded.locator("#sharding-workbench-live .sw-item")
    expect(rows).to_have_count(1, timeout=20_000)
    expect(rows).to_contain_text("plan, bench")
