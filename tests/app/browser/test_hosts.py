"""The hosts of a cell beside JupyterLab: VS Code's own widget manager, and the themes that hosts declare."""

from subprocess import CalledProcessError

import pytest
from playwright.sync_api import expect

from tests.app.browser.test_notebook import SETUP
from tests.app.browser.test_page import drag, grip
from tests.support import charts
from tests.support.tabs import open_tab
from tests.support.vscode import make_host


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
