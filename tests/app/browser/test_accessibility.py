"""axe-core on every screen, light and dark: no serious and no critical finding. It looks into the board's shadow root as well."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.app.browser.test_page import drag, grip, settled
from tests.support.resharding import reproducer
from tests.support.scripted import ScriptedRunner
from workbench.models import build
from workbench.plan.plan import Plan
from workbench.widgets.board.state import TABS

AXE = Axe()
OF_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""The rules that a theme has a part in: what is dark was light before, in the same elements."""


def findings(page: Page) -> list[str]:
    """What a person could not use: rule, impact, and the first place of each."""
    dark = page.locator(".wb[data-theme=dark]").count()
    found = AXE.run(page, options=OF_COLOURS if dark else None).response["violations"]
    return [
        f"{each['id']} ({each['impact']}): {each['help']} at {each['nodes'][0]['target']}: {each['nodes'][0]['failureSummary']}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


@pytest.fixture(params=["light", "dark"])
def themed(board, request):
    """The page over two layers, in a theme."""
    board.emulate_media(color_scheme=request.param)
    expect(board.locator(".wb")).to_have_attribute("data-theme", request.param)
    return board


def test_every_tab_can_be_used_by_everyone(themed, stage):
    stage.runner = ScriptedRunner()
    drag(themed, "hidden", "model")
    for key, _ in TABS:
        themed.locator(f'[role=tab][data-tab="{key}"]').click()
        settled(themed)
        expect(themed.locator(f'[role=tab][data-tab="{key}"]')).to_have_attribute("aria-selected", "true")
        assert findings(themed) == [], key


def test_open_menus_and_meanings_can_be_used_by_everyone(themed):
    grip(themed, "hidden").click(button="right")
    assert findings(themed) == [], "menu of a chip"
    themed.get_by_role("menuitem", name="Rename…").click()
    assert findings(themed) == [], "a name is asked"
    themed.keyboard.press("Escape")
    themed.get_by_label("Menu of mesh axis data").click()
    assert findings(themed) == [], "menu of an axis"
    themed.keyboard.press("Escape")
    themed.locator("[data-figure=memory] .term").click()
    assert findings(themed) == [], "meaning of a label"


def test_history_files_and_answers_can_be_used_by_everyone(themed):
    drag(themed, "hidden", "model")
    for name in ("History", "Export", "Link"):
        button = themed.locator(".tools").get_by_role("button", name=name)
        button.click()
        settled(themed)
        assert findings(themed) == [], name
        button.click()
    themed.locator("[data-figure=memory]").hover()
    themed.get_by_role("button", name="Why? Memory per device").click()
    themed.locator(".whypanel table").first.wait_for()
    assert findings(themed) == [], "why"


def test_recipes_and_reshardings_can_be_used_by_everyone(themed, server, stage):
    themed.locator("[data-verb=recipes]").click()
    themed.locator(".recipe").first.wait_for()
    assert findings(themed) == [], "recipes"
    stage.make = reproducer
    themed.goto(server[0])
    themed.locator(".wb .chip").first.wait_for()
    themed.locator('[role=tab][data-tab="resharding"]').click()
    themed.get_by_role("button", name="Try more edits").click()
    themed.locator(".remedy").nth(1).wait_for()
    assert findings(themed) == [], "a resharding with edits that were tried"
    themed.locator('[role=tab][data-tab="notes"]').click()
    expect(themed.locator(".tables")).to_contain_text("What the function itself lays out")
    assert findings(themed) == [], "what the function lays out itself"


def test_refusals_and_errors_can_be_used_by_everyone(themed, stage):
    stage.runner = ScriptedRunner(message="The device ran out of memory.")
    drag(themed, "hidden", "data")
    themed.locator(".refusal").wait_for()
    assert findings(themed) == [], "a refused drop"
    grip(themed, "hidden").focus()
    themed.keyboard.press("Space")
    assert findings(themed) == [], "a chip in hand"
    themed.keyboard.press("Escape")
    themed.get_by_role("button", name="Run", exact=True).click()
    themed.locator(".run[data-phase=error]").wait_for()
    assert findings(themed) == [], "a failed run"


def test_runs_and_compilations_can_be_used_by_everyone(themed, stage):
    stage.runner = ScriptedRunner(pause=0.1)
    themed.get_by_role("button", name="Run", exact=True).click()
    themed.locator(".run .curve").first.wait_for()
    assert findings(themed) == [], "while it runs"
    themed.get_by_role("button", name="Compile", exact=True).click()
    themed.locator(".run[data-phase=done]").wait_for()
    themed.locator(".compile[data-phase=done]").wait_for()
    themed.locator(".run .log summary").click()
    assert findings(themed) == [], "when both are done"
    themed.evaluate("scrollTo(0, 0)")
    drag(themed, "hidden", "model")
    themed.locator(".run.stale").wait_for()
    assert findings(themed) == [], "when both are of another plan"


def test_help_and_tour_can_be_used_by_everyone(themed):
    themed.locator("[data-focus=help]").click()
    assert findings(themed) == [], "help"
    themed.get_by_label("Search the words").fill("nothing is called this")
    assert findings(themed) == [], "nothing found"
    themed.get_by_role("button", name="Take the tour").click()
    for _ in range(4):
        assert findings(themed) == [], themed.locator(".tour h3").inner_text()
        themed.locator(".tour .primary").click()
    expect(themed.locator(".tour")).to_have_count(0)


@pytest.mark.parametrize("width", [560, 1920])
def test_a_narrow_cell_and_a_wide_screen_with_hardware_can_be_used_by_everyone(guarded, server, stage, width):
    stage.make = lambda: Plan(build("gpt"), "data:4 model:4", "batch:data; heads:model", hardware="TPU v5e 4x4")
    guarded.set_viewport_size({"width": width, "height": 1000})
    guarded.goto(server[0])
    guarded.locator(".wb .chip").first.wait_for()
    assert findings(guarded) == []


def test_a_page_that_cannot_be_made_can_be_used_by_everyone(guarded, server, stage):
    stage.make = lambda: 1 / 0
    guarded.goto(server[0])
    expect(guarded.get_by_role("alert").first).to_contain_text("ZeroDivisionError")
    assert findings(guarded) == []
