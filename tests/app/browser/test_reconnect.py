"""A wire that is cut, a server started again, a page that is left: the board comes back with its history; nothing is lost unseen."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.app.browser.test_page import drag, grip
from tests.support.proxy import proxy_to
from tests.support.servers import free_port, wait_for
from workbench.app.page.serve import serve
from workbench.public_plan import Plan


@pytest.fixture(scope="module")
def wire(program):
    """A server, and the wire to it."""
    port = free_port()
    with proxy_to(port) as proxy:
        plan = Plan(program, "data:4 model:2", "batch:data")
        origins = (f"127.0.0.1:{proxy.port}",)
        running = serve(plan, port=port, open_browser=False, origins=origins, threaded=True)  # boards in processes of their own
        wait_for(f"http://127.0.0.1:{proxy.port}/liveness")
        yield proxy
        running.stop()


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
    page.get_by_role("tab", name="Devices").click()
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
    expect(page.locator(".told[role=status]")).to_contain_text("goes to your downloads")
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


@contextmanager
def serving(port, state):
    """`workbench serve` in a process of its own, ended as services are."""
    options = ["--model", "two_layer", "--mesh", "data:4 model:2", "--layout", "batch:data", "--no-open", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench.cli", "serve", *options],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "WORKBENCH_STATE": str(state)},
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/liveness")
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


def test_after_a_restart_of_the_server_the_board_comes_back_and_is_offered_to_new_pages(guarded, context, tmp_path):
    port = free_port()
    with serving(port, tmp_path):
        guarded.goto(f"http://127.0.0.1:{port}/")
        guarded.locator(".wb .chip").first.wait_for()
        drag(guarded, "hidden", "model")
        expect(grip(guarded, "hidden", "model")).to_be_visible()
    expect(lost(guarded)).to_be_visible()
    with serving(port, tmp_path):
        expect(lost(guarded)).to_be_hidden(timeout=30_000)
        expect(grip(guarded, "hidden", "model")).to_be_visible()
        guarded.locator("[data-verb=undo]").click()
        expect(grip(guarded, "hidden", "model")).to_be_hidden()
        guarded.close()

        other = context.new_page()
        other.goto(f"http://127.0.0.1:{port}/")
        expect(other.locator("#notices .notice")).to_contain_text("Take up a board where you left it?")
        other.get_by_role("button", name="2 plans").click()
        other.locator("[data-verb=redo]").click()
        expect(grip(other, "hidden", "model")).to_be_visible()
