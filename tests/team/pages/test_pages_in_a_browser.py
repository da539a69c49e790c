"""The pages in Chromium: nothing on them that somebody could not use, on a phone and in the dark as well; and what scripts add."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.browser.test_accessibility import OF_COLOURS, findings
from tests.support.choosing import share_of
from tests.support.team_pages import ADMIN_PAGES, in_thread, project_pages

expect.set_options(timeout=20_000)

PHONE = {"width": 360, "height": 740}
WIDE = {"width": 1280, "height": 900}
TARGET = 44  # pixels of what a finger meets


@pytest.fixture(scope="session")
def base_url() -> None:
    """None: the tests give whole addresses."""


@pytest.fixture(scope="module")
def window(browser) -> Page:
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context.new_page()
    context.close()


@pytest.fixture
def visit(window, running, world):
    """`visit("ada", "/p/vision/")` is the page, open; a script that breaks, or a policy that is, fails the test."""
    broken: list[str] = []

    def hear_error(error) -> None:
        broken.append(str(error))

    def hear_console(message) -> None:
        if message.type == "error":
            broken.append(message.text)

    def go(who: str, path: str) -> Page:
        window.context.clear_cookies()
        if who:
            window.context.add_cookies([{"name": "workbench", "value": world.cookies[who], "url": running.services.address}])
        window.goto(running.services.address + path)
        return window

    window.on("pageerror", hear_error)
    window.on("console", hear_console)
    yield go
    window.remove_listener("pageerror", hear_error)
    window.remove_listener("console", hear_console)
    window.set_viewport_size(WIDE)
    window.emulate_media(color_scheme="light")
    window.evaluate("localStorage.clear()")
    assert broken == []


def everything(world) -> list[tuple[str, str]]:
    secret = world.things["vision"]["plan_secret"]
    own = [("ada", path) for path in ("/", "/account", "/account/quota", *project_pages(world).values())]
    return [*own, *(("root", path) for path in ADMIN_PAGES), ("", "/login"), ("", f"/share/{secret}"), ("sam", "/p/other/rooms")]


def test_every_page_can_be_used_by_everyone_light_and_dark(visit, world, pytestconfig):
    found = {}
    for who, path in share_of(pytestconfig, everything(world), 5):
        page = visit(who, path)
        page.emulate_media(color_scheme="light")
        found[path] = findings(page)
        page.emulate_media(color_scheme="dark")
        found[f"{path} in the dark"] = findings(page, OF_COLOURS)
    assert {path: each for path, each in found.items() if each} == {}


SMALLEST = 11  # pixels
SMALL = """least => [...document.querySelectorAll('body *')].filter((each) => each.checkVisibility() && !each.closest('.sr') &&
  [...each.childNodes].some((part) => part.nodeType === 3 && part.data.trim())).filter((each) => {
    const box = each.ownerSVGElement && each.ownerSVGElement.viewBox.baseVal;
    const scale = box && box.width ? each.ownerSVGElement.getBoundingClientRect().width / box.width : 1;
    return parseFloat(getComputedStyle(each).fontSize) * scale < least - 0.05;
  }).map((each) => each.outerHTML.slice(0, 99))"""


def test_no_text_is_too_small_to_read_at_any_width(visit, world, pytestconfig):
    """The text of a chart shrinks with the chart, so its size is measured on the screen."""
    charts = ("ada", project_pages(world)["comparison"])
    for who, path in {*share_of(pytestconfig, everything(world), 5), charts, ("ada", "/")}:
        page = visit(who, path)
        for width in (360, 640, 900, 1024, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(SMALL, SMALLEST) == [], (path, width)


def test_a_phone_shows_every_page_in_its_width_with_targets_for_a_finger(visit, world, pytestconfig):
    """Buttons, fields and sections are large; a link within a text is as high as its line."""
    visit("ada", "/").set_viewport_size(PHONE)
    small = """least => [...document.querySelectorAll('.btn, .quiet, .field, .tabs a, summary, .tick')]
      .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < least).map((each) => each.outerHTML.slice(0, 99))"""
    for who, path in share_of(pytestconfig, everything(world), 5):
        page = visit(who, path)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        assert page.evaluate(small, TARGET) == [], path


def test_keys_go_from_the_skip_link_through_the_page_in_its_order(visit):
    page = visit("ada", "/p/vision/")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Filter")
    seen = []
    for _ in range(10):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert seen[:3] == ["field-q", "field-model", "field-mesh"]
    outlines = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outlines == "solid"


def test_a_filter_shows_its_plans_without_a_new_page_and_is_in_the_address(visit):
    page = visit("vic", "/p/vision/")
    page.evaluate("window.kept = true")
    page.get_by_label("Fits its devices").select_option("no")
    expect(page.locator(".plan-row")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/p/vision/\?fits=no$"))
    page.get_by_label("Name or note has").fill("nothing like it")
    expect(page.get_by_text("No plan matches.")).to_be_visible()
    assert page.evaluate("window.kept")


def test_ticked_plans_are_counted_and_compared(visit):
    page = visit("vic", "/p/vision/")
    expect(page.get_by_role("button", name="Compare the ticked")).to_be_hidden()
    page.get_by_label("Compare Data parallel").check()
    expect(page.get_by_role("button", name="Compare the ticked")).to_be_disabled()
    page.get_by_label("Order").select_option("step")  # what is ticked stays ticked
    page.get_by_label("Compare Tensor parallel").check()
    expect(page.get_by_text("2 plans are ticked.")).to_be_visible()
    page.get_by_role("button", name="Compare the ticked").click()
    expect(page.get_by_role("heading", name="2 plans compared")).to_be_visible()
    page.get_by_role("button", name="Copy the link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_a_job_that_runs_moves_while_it_is_looked_at(visit, running, world):
    job = world.things["vision"]["jobs"]["running"]
    page = visit("rosa", f"/p/vision/jobs/{job}")
    expect(page.get_by_text("step 14 of 20", exact=False).first).to_be_visible()
    events = running.services.jobs.reported[job]
    running.services.jobs.reported[job] = [*events, {**events[-1], "seq": len(events) + 1, "step": 15, "fraction": 0.8}]
    expect(page.locator(".stack > .card p").filter(has_text="step 15 of 20")).to_be_visible()
    assert page.get_by_label("Progress").evaluate("bar => bar.value") == 0.8


def test_what_cannot_be_taken_back_is_asked_first(visit, world):
    page = visit("ed", "/p/vision/rooms")
    asked: list[str] = []
    page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    page.get_by_role("button", name="Close Less memory").click()
    assert asked == ["Close Less memory? It can be opened again."]
    found = in_thread(lambda: world.do("rooms.get", "ed", room=world.things["vision"]["rooms"][1]))
    assert found["closed"] is None


def test_the_theme_is_chosen_once_for_pages_and_boards(visit):
    page = visit("vic", "/")
    button = page.get_by_role("button", name="Theme: as the system")
    button.click()
    page.get_by_role("button", name="Theme: light").click()
    assert page.evaluate("localStorage.getItem('workbench.theme')") == "dark"
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(230, 237, 243)"


def test_everything_is_there_without_scripts(browser, running, world):
    context = browser.new_context(java_script_enabled=False, viewport=WIDE)
    context.add_cookies([{"name": "workbench", "value": world.cookies["ada"], "url": running.services.address}])
    page = context.new_page()
    page.goto(f"{running.services.address}/p/vision/?fits=no")
    page.get_by_label("Fits its devices").select_option("yes")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".plan-row")).to_have_count(5)
    page.get_by_label("Compare Data parallel").check()
    page.get_by_label("Compare Tensor parallel").check()
    page.get_by_role("button", name="Compare the ticked").click()
    page.get_by_role("button", name="Open Data parallel in a room").click()
    page.goto(f"{running.services.address}/p/vision/people")
    page.get_by_label("Role of Vic").select_option("editor")
    page.get_by_role("row", name="Vic").get_by_role("button", name="Set").click()
    expect(page.get_by_text("Vic is editor now.")).to_be_visible()
    context.close()
