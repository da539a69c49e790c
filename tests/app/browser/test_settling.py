"""The served page: an edit moves all figures at once, and they settle to what XLA's partitioner says without a click or a jump."""

import pytest
from playwright.sync_api import expect

from tests.app.browser.test_page import drag
from tests.support.servers import free_port, wait_for
from workbench.app.page.serve import serve
from workbench.public_plan import Plan

STANDING = ".wb .standing .origin"
WATCH = """(root) => {
  const seen = window.seenTiers = [];
  const look = () => {
    const tier = root.querySelector('.standing .origin')?.dataset.tier, tall = root.querySelector('.figures').offsetHeight;
    if (tier && seen.at(-1)?.tier !== tier) seen.push({ tier, tall });
  };
  look();
  new MutationObserver(look).observe(root, { subtree: true, childList: true, attributes: true });
}"""


@pytest.fixture(scope="module")
def address(program, tmp_path_factory):
    """A server as people start it: every board in a process of its own."""
    port = free_port()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WORKBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        running = serve(Plan(program, "data:4 model:2", "batch:data"), port=port, open_browser=False, threaded=True)
        wait_for(f"http://127.0.0.1:{port}/liveness")
        yield f"http://127.0.0.1:{port}/"
        running.stop()


def figure(page, key):
    return page.locator(f'.figure[data-figure="{key}"]')


def wait_until_seen(page, count):
    for _ in range(1200):  # not in the page, whose policy forbids what is evaluated again and again
        if page.evaluate("seenTiers.length") >= count:
            return
        page.wait_for_timeout(50)
    raise AssertionError(page.evaluate("seenTiers"))


def test_an_edit_is_planned_at_once_and_settles_by_itself(guarded, address):
    page = guarded
    page.goto(address)
    page.locator(".wb .chip").first.wait_for()
    expect(page.locator(f"{STANDING}[data-tier=partitioned]")).to_be_visible(timeout=60_000)
    page.locator(".wb").evaluate(WATCH)
    drag(page, "hidden", "model")
    wait_until_seen(page, 3)
    planned, settled = page.evaluate("seenTiers.slice(1, 3)")
    assert (planned["tier"], settled["tier"]) == ("planned", "partitioned")
    assert planned["tall"] == settled["tall"], "nothing below the figures moves"
    assert page.locator(".wb[data-settling=false]").count() == 1
    for key, tier in (("memory", "partitioned"), ("sent", "partitioned"), ("flops", "planned")):
        mark = figure(page, key).locator(".value .origin")
        expect(mark).to_have_attribute("data-tier", tier)
        expect(mark).to_have_role("img")
        expect(mark).to_have_accessible_name(tier.capitalize())
        assert mark.get_attribute("title").startswith(f"{tier.capitalize()}. ")


def test_the_line_under_the_figures_explains_the_tier(guarded, address):
    page = guarded
    page.goto(address)
    page.locator(f"{STANDING}[data-tier=partitioned]").wait_for(timeout=60_000)
    page.locator(".standing").get_by_role("button", name="Partitioned").click()
    expect(page.get_by_role("dialog", name="Partitioned")).to_contain_text("From XLA's own SPMD partitioner")


def test_a_plan_that_stands_is_compiled_and_memory_is_the_compilers(board, monkeypatch):
    monkeypatch.setattr("workbench.widgets.run.background_compile.is_busy", lambda *_: False)  # other tests keep this machine busy
    board.get_by_label("kind of device").select_option("TPU v5e")
    compiled = figure(board, "memory").locator(".value .origin[data-tier=compiled]")
    switch = board.get_by_label("Compile automatically")
    switch.check()
    expect(compiled).to_be_visible()
    expect(board.locator(".standing")).to_contain_text("XLA of a script")
    expect(figure(board, "memory").locator(".tier")).to_contain_text("predicted")
    drag(board, "hidden", "model")
    expect(compiled).to_be_hidden()
    switch.uncheck()
    board.locator("[data-verb=undo]").click()
    expect(compiled).to_be_visible()
