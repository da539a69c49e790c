"""A recorded board in a browser, opened from a file: no server, no network, and yet it answers drops, tabs, why and Check."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.app.browser.test_accessibility import AUDIT, findings_in_both
from tests.support.tabs import view_tab
from workbench.exercises import Exercise
from workbench.widgets.recorded.record_board import record_board, recorded_page

ONE = Exercise.load(Path(__file__).parents[3] / "lessons" / "one_product" / "exercise.json")


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "board.html"
    path.write_text(recorded_page(record_board(ONE.first_plan, 2, ONE, "share"), "One product", ["open the live one"]), encoding="utf-8")
    return path


@pytest.fixture
def recorded(browser: Browser, browser_context_args: dict, file: Path) -> Iterator[Page]:
    """In a window of its own, offline: the others stay on their server."""
    context = browser.new_context(**browser_context_args, offline=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.locator(".chip").first.wait_for()
    yield page
    context.close()


def drop(page: Page, dim: str) -> None:
    page.locator(f".chip [data-dim={dim}]").first.focus()
    for key in ("Space", "ArrowRight", "Space"):
        page.keyboard.press(key)


def test_drops_are_answered_and_taken_back(recorded):
    layout = recorded.locator(".head .layout")
    drop(recorded, "K")
    expect(layout).to_have_text("K:x")
    expect(recorded.locator(".exercise .goal[data-met=true]")).to_have_count(3)
    recorded.get_by_role("button", name="Check").click()
    expect(recorded.locator(".exercise .verdict")).to_contain_text("Right.")
    recorded.locator("[data-verb=undo]").click()
    expect(layout).to_have_text("everything replicated")
    recorded.locator("[data-verb=redo]").click()
    expect(layout).to_have_text("K:x")


def test_tabs_and_questions_that_were_recorded_are_answered(recorded):
    drop(recorded, "J")
    view_tab(recorded, "communication").click()
    expect(recorded.locator(".tables")).to_contain_text("all-reduce")
    recorded.locator('[data-focus="why figure sent"]').first.click()
    expect(recorded.locator(".whypanel")).to_contain_text("Why 2.00 MiB sent?")
    recorded.get_by_role("button", name="Close the answer").click()
    expect(recorded.locator(".whypanel")).to_be_hidden()


def test_what_was_not_recorded_says_so_and_where_it_is(recorded):
    view_tab(recorded, "memory").click()
    expect(recorded.get_by_role("alert")).to_contain_text("This recording does not include that action.")
    expect(recorded.get_by_role("alert")).to_contain_text("open the live one")
    drop(recorded, "I")
    expect(recorded.get_by_role("alert")).to_have_count(0)


@AUDIT
def test_everybody_can_use_it(recorded):
    drop(recorded, "I")
    assert findings_in_both(recorded) == {}


def test_what_a_recording_cannot_do_is_not_offered(recorded):
    for name in ("Save", "Open…", "Export", "Link", "Find"):
        expect(recorded.get_by_role("button", name=name, exact=True)).to_have_count(0)
    expect(recorded.locator("[data-verb=undo]")).to_be_visible()
