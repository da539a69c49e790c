"""axe-core on every screen, light and dark at each stop: no serious and no critical finding. It looks into the shadow root as well."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect

from tests.app.browser.conftest import open_board
from tests.app.browser.test_page import drag, grip, settled
from tests.support.choosing import share_of
from tests.support.resharding import reproducer
from tests.support.scripted import ScriptedRunner
from tests.support.tabs import open_tab
from workbench.models import build
from workbench.public_plan import Plan
from workbench.widgets.tabs.board_tabs import SECTIONS

VIOLATIONS = {"resultTypes": ["violations"]}
OF_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""The rules that a theme has a part in: what is dark was light before, in the same elements."""
AUDIT = pytest.mark.share(3, of="accessibility")
"""Every run has a third of the tests that check the accessibility of one screen after another: axe-core takes a second a screen."""


def findings(page: Page, options: dict | None = None) -> list[str]:
    """What a person could not use: rule, impact, and the first place of each."""
    if not page.evaluate("() => Boolean(window.axe)"):
        page.evaluate(AXE_SCRIPT)
    violations = "options => axe.run(document, options).then((found) => found.violations)"  # all else it found is megabytes
    return [
        f"{each['id']} ({each['impact']}): {each['help']} at {each['nodes'][0]['target']}: {each['nodes'][0]['failureSummary']}"
        for each in page.evaluate(violations, {**VIOLATIONS, **(options or {})})
        if each["impact"] in ("serious", "critical")
    ]


def findings_in_both(page: Page) -> dict[str, list[str]]:
    """Of the screen as it is, in each theme: what is open stays open as the theme changes."""
    found = {}
    for theme, options in (("light", None), ("dark", OF_COLOURS)):
        set_theme(page, theme)
        found[theme] = findings(page, options)
    return {theme: each for theme, each in found.items() if each}


def set_theme(page: Page, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    expect(page.locator(".wb")).to_have_attribute("data-theme", theme)


def test_what_cannot_be_used_is_found(page):
    page.set_content(
        "<html lang=en><title>a</title><main><h1>a</h1><p style='color: #eee; background: #fff'>faint</p><button></button></main>"
    )
    assert [each.partition(" ")[0] for each in findings(page)] == ["button-name", "color-contrast"]
    assert [each.partition(" ")[0] for each in findings(page, OF_COLOURS)] == ["color-contrast"]


@AUDIT
def test_every_tab_can_be_used_by_everyone(board, stage, pytestconfig):
    stage.runner = ScriptedRunner()
    drag(board, "hidden", "model")
    for section in share_of(pytestconfig, SECTIONS, 3):
        open_tab(board, section.key)
        settled(board)
        assert findings_in_both(board) == {}, section.key


@AUDIT
def test_open_menus_and_meanings_can_be_used_by_everyone(board):
    grip(board, "hidden").click(button="right")
    assert findings_in_both(board) == {}, "menu of a chip"
    board.get_by_role("menuitem", name="Rename…").click()
    assert findings_in_both(board) == {}, "a name is asked"
    board.keyboard.press("Escape")
    board.get_by_label("Menu of mesh axis data").click()
    assert findings_in_both(board) == {}, "menu of an axis"
    board.keyboard.press("Escape")
    board.locator("[data-figure=memory] .term").click()
    assert findings_in_both(board) == {}, "meaning of a label"


@AUDIT
def test_history_files_and_answers_can_be_used_by_everyone(board):
    drag(board, "hidden", "model")
    for name in ("History", "Export", "Link"):
        button = board.locator(".tools").get_by_role("button", name=name)
        button.click()
        settled(board)
        assert findings_in_both(board) == {}, name
        button.click()
    board.locator("[data-figure=memory]").hover()
    board.get_by_role("button", name="Why? Memory per device").click()
    board.locator(".whypanel table").first.wait_for()
    assert findings_in_both(board) == {}, "why"


@AUDIT
def test_recipes_and_reshardings_can_be_used_by_everyone(board, server, stage):
    board.locator("[data-verb=recipes]").click()
    board.locator(".recipe").first.wait_for()
    assert findings_in_both(board) == {}, "recipes"
    stage.make = reproducer
    open_board(board, server)
    open_tab(board, "resharding")
    board.get_by_role("button", name="Try more edits").click()
    board.locator(".remedy").nth(1).wait_for()
    assert findings_in_both(board) == {}, "a resharding with edits that were tried"
    open_tab(board, "notes")
    expect(board.locator(".tables")).to_contain_text("Sharded by the function itself")
    assert findings_in_both(board) == {}, "what the function lays out itself"


@AUDIT
def test_refusals_and_errors_can_be_used_by_everyone(board, stage):
    stage.runner = ScriptedRunner(message="The device ran out of memory.")
    drag(board, "hidden", "data")
    board.locator(".refusal").wait_for()
    assert findings_in_both(board) == {}, "a refused drop"
    grip(board, "hidden").focus()
    board.keyboard.press("Space")
    assert findings_in_both(board) == {}, "a chip in hand"
    board.keyboard.press("Escape")
    board.get_by_role("button", name="Run", exact=True).click()
    board.locator(".run[data-phase=error]").wait_for()
    assert findings_in_both(board) == {}, "a failed run"


@AUDIT
def test_runs_and_compilations_can_be_used_by_everyone(board, stage):
    stage.runner = ScriptedRunner(pause=0.1)
    board.get_by_role("button", name="Run", exact=True).click()
    board.locator(".run .curve").first.wait_for()
    assert findings_in_both(board) == {}, "while it runs"
    board.get_by_role("button", name="Compile", exact=True).click()
    board.locator(".run[data-phase=done]").wait_for()
    board.locator(".compile[data-phase=done]").wait_for()
    board.locator(".run .log summary").click()
    assert findings_in_both(board) == {}, "when both are done"
    board.evaluate("scrollTo(0, 0)")
    drag(board, "hidden", "model")
    board.locator(".run.stale").wait_for()
    assert findings_in_both(board) == {}, "when both are of another plan"


@AUDIT
def test_help_and_tour_can_be_used_by_everyone(board):
    board.locator("[data-focus=help]").click()
    assert findings_in_both(board) == {}, "help"
    board.get_by_label("Search terms").fill("nothing is called this")
    assert findings_in_both(board) == {}, "nothing found"
    board.get_by_role("button", name="Take the tour").click()
    for _ in range(4):
        assert findings_in_both(board) == {}, board.locator(".tour h3").inner_text()
        board.locator(".tour .primary").click()
    expect(board.locator(".tour")).to_have_count(0)


@AUDIT
@pytest.mark.parametrize("width", [560, 1920])
def test_a_narrow_cell_and_a_wide_screen_with_hardware_can_be_used_by_everyone(guarded, server, stage, width):
    stage.make = lambda: Plan(build("gpt"), "data:4 model:4", "batch:data; heads:model", hardware="TPU v5e 4x4")
    guarded.set_viewport_size({"width": width, "height": 1000})
    open_board(guarded, server)
    assert findings(guarded) == []


@AUDIT
def test_a_page_that_cannot_be_made_can_be_used_by_everyone(guarded, server, stage):
    stage.make = lambda: 1 / 0
    guarded.goto(server[0])
    expect(guarded.get_by_role("alert").first).to_contain_text("ZeroDivisionError")
    assert findings(guarded) == []
