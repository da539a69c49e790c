"""Boards in the cells of notebooks: in JupyterLab, in VS Code's own widget manager, and in the theme that a host declares."""

import json
from pathlib import Path
from subprocess import CalledProcessError

import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import Page, expect

from tests.app.browser.test_page import drag, grip
from tests.support import charts
from tests.support.jupyterlab import READY, clear, command, open_lab, run_cell, write_notebook
from tests.support.tabs import open_tab
from tests.support.vscode import make_host

SETUP = """
import workbench as wb
from workbench.models import build
plan = wb.Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", "batch:data")
bench = wb.Workbench(plan)
bench
"""

FLEET = """
import workbench as wb
from tests.support.fleets import three_models, times_of
from workbench.multimodel.fleet_forecast import forecast
fleet = three_models(memory=12 * 1024)
board = wb.FleetBoard(fleet, times_of(forecast(fleet)))
board
"""


@pytest.fixture
def cell(desk, lab, request):
    """The notebook of a board that was edited in its cell; another cell prints the plan of its kernel, which is the only one."""
    file = lab[1] / f"{request.node.name[5:25]}.ipynb"
    open_alone(desk, file, SETUP, "print('PLAN', bench.plan.layout)")
    desk.locator(".wb .chip").first.wait_for(timeout=60_000)
    drag(desk, "hidden", "model")
    expect(grip(desk, "hidden", "model")).to_contain_text("30 → 15")
    return file


def open_alone(page: Page, file: Path, *cells: str) -> None:
    """A new notebook whose first cell runs; no other document is open, and no other kernel is left."""
    clear(page)
    page.evaluate("() => jupyterapp.serviceManager.sessions.shutdownAll().then(() => 1)")
    write_notebook(file, *cells)
    command(page, "docmanager:open", path=file.name)
    page.wait_for_function(READY, timeout=60_000)
    run_cell(page, 0)


def test_a_drop_in_the_cell_moves_the_plan_in_the_kernel_which_the_sidebar_lists_once(desk, cell):
    charts.drawn(open_tab(desk, "memory"))  # the kernel has sent BokehJS
    grip(desk, "hidden", "model").focus()
    desk.keyboard.press("b")  # JupyterLab would insert a cell
    run_cell(desk, 1)
    expect(desk.locator("[data-mime-type='application/vnd.jupyter.stdout']")).to_contain_text("PLAN batch:data; hidden:model")
    expect(desk.locator(".jp-Cell")).to_have_count(2)
    command(desk, "sharding-workbench:live")
    rows = desk.locator("#sharding-workbench-live .sw-item")
    expect(rows).to_have_count(1, timeout=20_000)
    expect(rows).to_contain_text("plan, bench")


def saved(page: Page, file: Path) -> dict:
    """The notebook as saved now."""
    page.evaluate("() => jupyterapp.shell.currentWidget.context.save().then(() => 1)")
    return json.loads(file.read_text())


def test_an_edit_is_in_the_notebook_when_it_is_saved_restarted_reopened_and_converted(desk, lab, cell):
    line = desk.locator(".wb-kept")
    expect(line).to_contain_text("1 edit not in the code of this cell")
    desk.wait_for_function("() => JSON.stringify(jupyterapp.shell.currentWidget.model.toJSON()).includes('hidden 30 → 15')")
    expect(desk.locator(".wb")).to_have_count(1)  # the board was not drawn anew
    notebook = saved(desk, cell)
    assert len(cell.read_bytes()) < 20_000
    assert "hidden 30 → 15" in "".join(notebook["cells"][0]["outputs"][0]["data"]["text/html"])
    assert notebook["cells"][0]["metadata"]["sharding-workbench"]["plan"]["layout"]["rules"] == {"batch": "data", "hidden": "model"}
    assert "hidden 30 → 15" in HTMLExporter().from_filename(str(cell))[0]

    desk.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart().then(() => 1)")
    expect(line).to_contain_text("Run the cell again")  # nobody has clicked
    desk.wait_for_function(READY, timeout=60_000)
    run_cell(desk, 0)
    line.get_by_role("button", name="Continue").click(timeout=60_000)
    expect(grip(desk, "hidden", "model")).to_contain_text("30 → 15")
    line.get_by_role("button", name="Write to cell").click()
    expect(line).to_contain_text("Written to the cell.")
    desk.wait_for_function("() => JSON.stringify(jupyterapp.shell.currentWidget.model.toJSON()).includes('hidden 30 → 15')")
    source = "".join(saved(desk, cell)["cells"][0]["source"])
    assert source == SETUP.replace('"batch:data"', '"batch:data; hidden:model"')

    desk.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown().then(() => 1)")
    open_lab(desk, lab[0], cell.name)
    picture = desk.locator(".jp-OutputArea-output")
    expect(picture.locator("table").first).to_contain_text("Memory per device")
    expect(picture).to_contain_text("batch 16 → 4")
    expect(picture).to_contain_text("hidden 30 → 15")
    expect(desk.locator(".wb")).to_have_count(0)

    desk.wait_for_function(READY, timeout=60_000)
    run_cell(desk, 0)
    desk.locator(".wb .chip").first.wait_for(timeout=60_000)
    desk.locator(".wb").evaluate("board => { board.dataset.drawn = 'once'; }")
    drag(desk, "hidden", "", source="model")
    desk.wait_for_function("() => !JSON.stringify(jupyterapp.shell.currentWidget.model.toJSON()).includes('hidden 30 → 15')")
    expect(desk.locator(".wb[data-drawn=once]")).to_have_count(1)  # drawn anew, the board would lose a chip in hand


def test_in_a_cell_a_hand_changes_the_fleet_in_the_kernel(desk, lab):
    open_alone(desk, lab[1] / "fleet.ipynb", FLEET, "print('DEVICES', board.fleet.devices)")
    desk.locator(".wb.fleet .chart[data-drawn=true]").wait_for(timeout=60_000)
    desk.get_by_role("button", name="One device less").click()
    expect(desk.locator(".wb.fleet")).to_have_attribute("data-busy", "false")
    run_cell(desk, 1)
    expect(desk.locator("[data-mime-type='application/vnd.jupyter.stdout']")).to_contain_text("DEVICES 1")


def test_a_board_in_vscodes_widget_manager_is_moved_and_draws_its_charts(lab, guarded):
    url, folder = lab
    try:
        make_host(folder.parent / "static")
    except CalledProcessError:
        pytest.skip("what VS Code takes from npm could not be fetched")
    guarded.goto(f"{url}/lab")  # for the cookie that a server wants back
    guarded.goto(f"{url}/static/index.html")
    guarded.wait_for_function("() => window.runCell")
    guarded.evaluate("(code) => { runCell(code); }", SETUP)
    guarded.locator(".wb .chip").first.wait_for(timeout=60_000)
    expect(guarded.locator(".wb")).to_have_attribute("data-theme", "dark")
    drag(guarded, "hidden", "model")
    expect(grip(guarded, "hidden", "model")).to_contain_text("30 → 15")
    charts.drawn(open_tab(guarded, "memory"))
    guarded.locator("[data-save=SVG]").first.click()
    guarded.wait_for_function("() => window.saved === 'memory-over-the-step.svg'")


@pytest.mark.parametrize(
    ("element", "attribute", "values"),
    [
        ("body", "data-jp-theme-light", {"false": "dark", "true": "light"}),
        ("body", "data-vscode-theme-kind", {"vscode-dark": "dark", "vscode-high-contrast": "dark", "vscode-high-contrast-light": "light"}),
        ("documentElement", "theme", {"dark": "dark", "light": "light"}),
    ],
    ids=("JupyterLab", "VS Code", "Colab"),
)
def test_the_board_takes_the_theme_that_its_host_declares(board, element, attribute, values):
    for value, theme in values.items():
        board.evaluate(f"([name, value]) => document.{element}.setAttribute(name, value)", [attribute, value])
        expect(board.locator(".wb")).to_have_attribute("data-theme", theme)
    board.evaluate(f"(name) => document.{element}.removeAttribute(name)", attribute)
    expect(board.locator(".wb")).to_have_attribute("data-theme", "light")
