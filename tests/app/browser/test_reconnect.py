"""A wire that is cut, a server started again, a page that is left: the board comes back with its history; nothing is lost unseen."""

import pytest
from playwright.sync_api import expect

from tests.app.browser.test_page import drag, grip
from tests.support.proxy import proxy_to
from tests.support.servers import free_port, wait_for
from tests.support.tabs import open_tab
from workbench.app.page.serve import serve
from workbench.public_plan import Plan


class WiredServer:
    """A server with boards in processes of their own, and the wire to it; it can be stopped and started again at its address."""

    def __init__(self, program, wire, port):
        self._plan, self._wire, self._port = Plan(program, "data:4 model:2", "batch:data"), wire, port

    def start(self):
        origins = (f"127.0.0.1:{self._wire.port}",)
        self._running = serve(self._plan, port=self._port, open_browser=False, origins=origins, threaded=True)
        wait_for(f"http://127.0.0.1:{self._wire.port}/liveness")

    def stop(self):
        self._running.stop()
        self._running.join(60)
        self._running = None  # its boards end with it


@pytest.fixture(scope="module")
def wire(program):
    port = free_port()
    with proxy_to(port) as proxy:
        proxy.server = WiredServer(program, proxy, port)
        proxy.server.start()
        yield proxy
        proxy.server.stop()


@pytest.fixture
def page(browser, browser_context_args):
    """Of each test its own: some close it."""
    context = browser.new_context(**browser_context_args)
    yield context.new_page()
    context.close()


@pytest.fixture
def page_over(guarded, wire):
    wire.mend()
    guarded.goto(f"http://127.0.0.1:{wire.port}/")
    guarded.locator(".wb .chip").first.wait_for()
    yield guarded
    wire.mend()


def wait_until_scrolled(page, y):
    for _ in range(1200):  # not in the page, whose policy forbids what is evaluated again and again
        if page.evaluate("scrollY") == y:
            return
        page.wait_for_timeout(50)
    assert page.evaluate("scrollY") == y


def lost(page):
    return page.locator("#lost")


def test_after_a_cut_the_board_goes_on_where_it_was(page_over, wire):
    page = page_over
    drag(page, "hidden", "model")
    expect(grip(page, "hidden", "model")).to_be_visible()
    open_tab(page, "devices")
    page.set_viewport_size({"width": 1280, "height": 400})
    page.evaluate("scrollTo(0, 100)")
    wire.cut()
    expect(lost(page)).to_contain_text("The connection was cut")
    expect(lost(page)).to_contain_text("Reconnecting")
    assert page.evaluate("document.getElementById('shown').inert"), "no hand can do what would be lost"
    wire.mend()
    expect(lost(page)).to_be_hidden()
    expect(grip(page, "hidden", "model")).to_be_visible()
    expect(page.get_by_role("tab", name="Devices")).to_have_attribute("aria-selected", "true")
    wait_until_scrolled(page, 100)
    page.locator("[data-verb=undo]").click()
    expect(grip(page, "hidden", "model")).to_be_hidden()
    page.locator("[data-verb=redo]").click()
    expect(grip(page, "hidden", "model")).to_be_visible()


def test_what_was_on_its_way_arrives_after_the_cut_and_is_done_once(page_over, wire):
    page = page_over
    for axis, source in (("model", ""), ("", "model")):
        drag(page, "hidden", axis, source)
    wire.swallow()
    page.locator("[data-verb=undo]").click()
    wire.cut()
    expect(lost(page)).to_be_visible()
    wire.mend()
    expect(lost(page)).to_be_hidden()
    expect(grip(page, "hidden", "model")).to_be_visible()
    expect(page.locator("[data-verb=undo]")).to_be_enabled()
    expect(page.locator("[data-verb=redo]")).to_be_enabled()


def test_leaving_with_unsaved_work_asks(page_over):
    page, asked = page_over, []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    drag(page, "hidden", "model")
    expect(grip(page, "hidden", "model")).to_be_visible()
    with page.expect_event("dialog"):
        page.close(run_before_unload=True)
    assert asked == ["beforeunload"]
    with page.expect_download():
        page.keyboard.press("Control+s")
    expect(page.locator(".told[role=status]")).to_contain_text("is in your downloads")
    with page.expect_event("close"):
        page.close(run_before_unload=True)
    assert asked == ["beforeunload"]


def test_who_stays_still_hears_of_a_cut(page_over, wire):
    page = page_over
    page.on("dialog", lambda dialog: dialog.dismiss())
    drag(page, "hidden", "model")
    expect(grip(page, "hidden", "model")).to_be_visible()
    with page.expect_event("dialog"):
        page.close(run_before_unload=True)
    wire.cut()
    expect(lost(page)).to_be_visible()
    wire.mend()
    expect(lost(page)).to_be_hidden()
    expect(grip(page, "hidden", "model")).to_be_visible()


def test_after_a_restart_of_the_server_the_board_comes_back_and_is_offered_to_new_pages(page_over, context, wire):
    page = page_over
    drag(page, "hidden", "model")
    expect(grip(page, "hidden", "model")).to_be_visible()
    wire.server.stop()
    expect(lost(page)).to_be_visible()
    wire.server.start()
    expect(lost(page)).to_be_hidden(timeout=30_000)
    expect(grip(page, "hidden", "model")).to_be_visible()
    page.locator("[data-verb=undo]").click()
    expect(grip(page, "hidden", "model")).to_be_hidden()
    page.close()

    other = context.new_page()
    other.goto(f"http://127.0.0.1:{wire.port}/")
    expect(other.locator("#notices .notice")).to_contain_text("Resume a board?")
    other.get_by_role("button", name="2 plans").click()
    other.locator("[data-verb=redo]").click()
    expect(grip(other, "hidden", "model")).to_be_visible()
