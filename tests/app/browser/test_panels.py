"""The panels of long work, help, tour and themes, as a person meets them; and layouts that hold in a narrow cell and on a wide screen."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.browser.conftest import open_board
from tests.app.browser.test_page import drag, grip, settled
from tests.support.choosing import share_of
from tests.support.scripted import ScriptedRunner
from tests.support.servers import free_port, wait_for
from tests.support.tabs import open_tab
from workbench.app.page.serve import serve
from workbench.documents import load_plan
from workbench.models import build
from workbench.public_plan import Plan
from workbench.widgets.tabs.board_tabs import SECTIONS


def run(page: Page, steps: int = 20) -> None:
    page.get_by_label("steps to run").fill(str(steps))
    page.get_by_role("button", name="Run", exact=True).click()


def spoken(page: Page):
    return page.locator("[aria-live=assertive]")


@pytest.fixture
def quick(board, stage):
    """The page, whose runs are over at once."""
    stage.runner = ScriptedRunner()
    return board


def test_a_curve_is_read_under_the_pointer_and_by_keys(quick):
    run(quick, 20)
    quick.locator(".run[data-phase=done]").wait_for()
    curve = quick.locator('[data-curve="step time"]')
    expect(curve.locator(".atstep")).to_have_text("median 19.5 ms")
    expect(quick.locator(".wb[data-settling=false]")).to_be_visible(timeout=60_000)  # figures that settle may move what lies below
    plot = curve.locator(".plot")
    plot.hover(position={"x": 1, "y": 10})
    expect(curve.locator(".atstep")).to_have_text("step 1: 10.0 ms")
    plot.hover(position={"x": plot.bounding_box()["width"] - 1, "y": 10})
    expect(curve.locator(".atstep")).to_have_text("step 20: 29.0 ms")
    quick.mouse.move(0, 0)
    curve.locator(".plot").focus()
    for _ in range(3):
        quick.keyboard.press("ArrowRight")
    expect(spoken(quick)).to_have_text("step 3: 12.0 ms")
    expect(curve.locator(".steps")).to_have_text("step 120")
    expect(curve.locator(".scale")).to_have_text("29.0 ms10.0 ms")


def test_the_workers_messages_can_be_read(quick):
    run(quick, 5)
    quick.locator(".run[data-phase=done]").wait_for()
    log = quick.locator(".run .log")
    expect(log.locator("li").first).to_be_hidden()
    log.locator("summary").click()
    expect(log.locator("li")).to_contain_text(
        ["5 steps of two-layer on data:4 model:2", "compiling", "first step: 10.0 ms", "done: 12.0 ms a step"]
    )


def test_endings_are_spoken(quick):
    run(quick, 3)
    expect(spoken(quick)).to_have_text("The run is done: 11.0 ms a step.")
    quick.get_by_role("button", name="Compile", exact=True).click()
    expect(spoken(quick)).to_have_text("The compilation is done.")


@pytest.mark.parametrize(("label", "begins"), [("Report (HTML)", b"<!doctype html>"), ("Board (PNG)", b"\x89PNG")])
def test_a_file_is_downloaded_from_the_menu_of_exports(quick, label, begins):
    quick.get_by_role("button", name="Export", exact=True).click()
    with quick.expect_download() as download:
        quick.get_by_role("button", name=label, exact=True).click()
    assert Path(download.value.path()).read_bytes().startswith(begins)


def test_results_stay_with_the_plan_they_are_of(quick):
    run(quick, 3)
    quick.locator(".run[data-phase=done]").wait_for()
    quick.get_by_role("button", name="Compile", exact=True).click()
    quick.locator(".compile[data-phase=done]").wait_for()
    expect(quick.locator(".run .of")).to_be_hidden()
    drag(quick, "hidden", "model")
    expect(quick.locator(".run .message")).to_have_text("Run before the last edit (another plan):")
    expect(quick.locator(".run .of")).to_have_text("two-layer on data:4 model:2: batch:data")
    expect(quick.locator(".compile .of")).to_have_text("two-layer on data:4 model:2: batch:data")
    run(quick, 4)
    expect(quick.locator(".run .facts")).to_contain_text("median of 4")
    quick.locator("[data-verb=undo]").click()
    expect(quick.locator(".run .facts")).to_contain_text("median of 3")
    expect(quick.locator(".run .message")).to_be_hidden()
    quick.locator("[data-verb=redo]").click()
    expect(quick.locator(".run .facts")).to_contain_text("median of 4")


def test_a_compilation_shows_its_stage_and_is_cancelled(board, stage):
    stage.runner = ScriptedRunner(pause=0.2)
    board.get_by_role("button", name="Compile", exact=True).click()
    expect(board.locator(".compile .stage")).to_contain_text("lowering")
    expect(board.get_by_role("progressbar", name="compilation")).to_be_visible()
    board.get_by_role("button", name="Cancel the compilation").click()
    expect(board.locator(".compile .message")).to_have_text("Cancelled.")
    expect(board.get_by_role("button", name="Compile", exact=True)).to_be_enabled()


def test_help_opens_by_key_and_gives_the_focus_back(board):
    grip(board, "hidden").focus()
    board.keyboard.press("?")
    panel = board.get_by_role("dialog", name="Help")
    expect(panel).to_be_visible()
    board.get_by_label("Search terms").fill("gathers all-gather")
    expect(panel.locator(".none")).to_contain_text("No entry for")
    board.get_by_label("Search terms").fill("all-gather")
    expect(panel.locator(".entry:visible dt")).to_have_text(["Collective", "6 Gathered"])
    expect(panel.locator(".entry:visible a").first).to_have_attribute("href", re.compile("^https://"))
    board.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(board.locator("[data-focus=help]")).to_be_focused()


def test_a_question_mark_that_is_typed_is_no_call_for_help(board):
    board.get_by_label("steps to run").focus()
    board.keyboard.press("?")
    expect(board.get_by_role("dialog", name="Help")).to_be_hidden()


def test_a_label_tells_what_it_means(board):
    board.get_by_role("button", name="Duplication", exact=True).click()
    meaning = board.get_by_role("dialog", name="Duplication")
    expect(meaning).to_contain_text("no duplicated work")
    expect(meaning).to_contain_text("Is any work done twice?")
    board.keyboard.press("Escape")
    expect(meaning).to_have_count(0)
    expect(board.get_by_role("button", name="Duplication", exact=True)).to_be_focused()


def test_a_theme_is_chosen_on_the_page_and_remembered(board):
    theme, page = board.locator("[data-focus=theme]"), board.locator("html")
    expect(board.locator(".wb")).to_have_attribute("data-theme", "light")
    theme.click()
    expect(theme).to_have_attribute("title", "Theme: light")
    theme.click()
    expect(board.locator(".wb")).to_have_attribute("data-theme", "dark")
    expect(page).to_have_attribute("data-theme", "dark")
    board.reload()
    expect(board.locator(".wb")).to_have_attribute("data-theme", "dark")
    expect(page).to_have_attribute("data-theme", "dark")
    theme.click()
    expect(theme).to_have_attribute("title", "Theme: auto")
    expect(board.locator(".wb")).to_have_attribute("data-theme", "light")


def tour_would_be_there(page: Page) -> None:
    """Wait until after the time at which the page shows it: of two timers of a page the one that is set first comes first."""
    page.evaluate("() => new Promise((done) => setTimeout(done, 400))")


@pytest.fixture
def first_visit(guarded, program):
    """The address of a page that shows first visitors around."""
    url = f"http://127.0.0.1:{(port := free_port())}/"
    plan = Plan(program, "data:4 model:2", "batch:data")
    running = serve(plan, port=port, open_browser=False, runner=ScriptedRunner(), tour=True, threaded=True)
    wait_for(f"{url}liveness")
    guarded.goto(url)
    yield guarded
    running.stop()
    running.join(60)  # else it may still answer when the page is left, and go away before it has


def test_a_first_visitor_is_shown_around_once(first_visit):
    tour = first_visit.locator(".tour")
    expect(tour).to_have_attribute("aria-label", "Tour, step 1 of 4")
    tour.get_by_role("button", name="Next").click()
    expect(tour.locator("h3")).to_contain_text("Drag")
    drag(first_visit, "hidden", "model")
    expect(tour).to_have_attribute("aria-label", "Tour, step 3 of 4")
    tour.get_by_role("button", name="Back").click()
    expect(tour).to_have_attribute("aria-label", "Tour, step 2 of 4")
    first_visit.keyboard.press("Escape")
    expect(tour).to_have_count(0)
    first_visit.reload()
    first_visit.locator(".wb .chip").first.wait_for()
    tour_would_be_there(first_visit)
    expect(tour).to_have_count(0)
    first_visit.locator("[data-focus=help]").click()
    first_visit.get_by_role("button", name="Take the tour").click()
    expect(tour).to_have_attribute("aria-label", "Tour, step 1 of 4")


def test_nobody_else_is_shown_around(board):
    tour_would_be_there(board)
    expect(board.locator(".tour")).to_have_count(0)


def test_no_screen_is_wider_than_its_window(guarded, server, stage, pytestconfig):
    stage.make = lambda: Plan(build("gpt"), "data:4 model:4", "batch:data; heads:model", hardware="TPU v5e 4x4")
    guarded.set_viewport_size({"width": 560, "height": 1000})
    open_board(guarded, server)

    def verify(screen: str) -> None:
        for width in (560, 1280, 1920):
            guarded.set_viewport_size({"width": width, "height": 1000})
            assert guarded.evaluate("document.documentElement.scrollWidth") <= width, (screen, width)

    for key in (section.key for section in share_of(pytestconfig, SECTIONS, 3)):
        open_tab(guarded, key)
        settled(guarded)
        verify(key)
        if key in ("tensors", "communication", "kernels"):
            guarded.set_viewport_size({"width": 1280, "height": 1000})
            box = guarded.locator(f'.tables[data-tab="{key}"] .scroll')
            assert box.evaluate("box => box.scrollWidth <= box.clientWidth"), f"{key} scrolls sideways"
    guarded.locator("[data-focus=help]").click()
    verify("help")


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="asks Linux who listens where")
def test_only_this_machine_is_listened_to(server):
    port = f"{int(server[0].rstrip('/').rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    assert {row[1] for row in rows if row[1].endswith(f":{port}") and row[3] == "0A"} == {f"0100007F:{port}"}


@pytest.fixture
def offline(context):
    """A page of its own, without a network."""
    context.set_offline(True)
    yield context.new_page()
    context.set_offline(False)


def test_a_report_opens_offline_light_and_dark_without_a_request(offline, tmp_path):
    plan = Plan(build("two_layer"), "data:4 model:2", "batch:data", hardware="TPU v5e 2x4")
    page, asked = offline, []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: asked.append(message.text))
    address = plan.export_file(tmp_path / "report.html").as_uri()
    grounds = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(address)
        expect(page.locator("svg").first).to_be_visible()
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert asked == [address, address]
    assert grounds == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]
    with page.expect_download() as download:
        page.get_by_role("link").click()
    assert load_plan(download.value.path()) == plan
