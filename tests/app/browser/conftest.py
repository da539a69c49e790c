"""The served page in a real browser. One server for all tests; each sets the stage for the pages it opens."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin, urlparse

import panel as pn
import pytest
from panel.io.state import set_curdoc
from playwright.sync_api import BrowserContext, Page, Request, expect

from tests.support.jupyterlab import open_lab, running_lab
from tests.support.scripted import ScriptedRunner
from tests.support.servers import answers, free_port, wait_for
from workbench.app.page import serve as page_server
from workbench.app.page.boards_in_process import open_in_process
from workbench.app.page.serve_options import ServeOptions
from workbench.app.page.visitor_screen import Screen
from workbench.core.program import Program
from workbench.models import build
from workbench.public_plan import Plan

expect.set_options(timeout=20_000)  # a page that lost a message asks again after five seconds


HERE = ("127.0.0.1", "localhost")


class Stage:
    """What the next page shows, and who runs it."""

    def __init__(self, plan: Plan) -> None:
        self.make: Callable[[], Plan] = lambda: plan
        self.runner = ScriptedRunner(pause=0.02)


class OpenPage:
    """A page of the server, which can show the board of the present stage in the place of its own: a new page takes five times as long."""

    def __init__(self, show: Callable[[], Callable[[], None]]) -> None:
        self._show, self._leave, self._document = show, show(), pn.state.curdoc

    def leave(self) -> None:
        self._leave()

    def show_again(self) -> None:
        self._document.add_next_tick_callback(self._replace)

    def _replace(self) -> None:
        with set_curdoc(self._document):
            self._leave()
            self._leave = self._show()


@pytest.fixture(scope="session")
def base_url() -> None:
    """None: the tests give whole addresses. The plug-in's own is a method, of which pytest 9 warns."""


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict) -> dict:
    """A browser that finds no other machine."""
    alone = ", ".join(("MAP * ~NOTFOUND", *(f"EXCLUDE {each}" for each in HERE)))
    return {**browser_type_launch_args, "args": [*browser_type_launch_args["args"], f"--host-resolver-rules={alone}"]}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict) -> dict:
    return {**browser_context_args, "viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}


@pytest.fixture(scope="session")
def program() -> Program:
    """x[batch=16, io=64], w[io=64, hidden=30], v[hidden=30, io=64]: four does not divide hidden."""
    return build("two_layer", batch=16, io=64, hidden=30)


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[str, list[Stage], list[OpenPage]]]:
    stages: list[Stage] = []
    port = free_port()

    class Current:
        def make(self):
            return stages[-1].make()

        def start(self, plan, steps, on_event):
            return stages[-1].runner.start(plan, steps, on_event)

        def compile(self, plan, on_event, *, behind=False):
            return stages[-1].runner.compile(plan, on_event, behind=behind)

        def expect(self, plan):
            stages[-1].runner.expect(plan)

        def calibrate(self, plan, on_event):
            return stages[-1].runner.calibrate(plan, on_event)

        def calibrated(self, plan):
            return stages[-1].runner.calibrated(plan)

        def refuses(self, plan):
            return stages[-1].runner.refuses(plan)

        def search(self, space, on_event):
            return stages[-1].runner.search(space, on_event)

        def expect_search(self, plan):
            stages[-1].runner.expect_search(plan)

    opening, pages = open_in_process(ServeOptions(Current().make), Current()), []

    def open_page(query: Mapping[str, str], screen: Screen) -> Callable[[], None]:
        pages.append(OpenPage(lambda: opening(query, screen)))
        return pages[-1].leave

    options = {"open_browser": False, "address": "127.0.0.1", "origins": (), "unix_socket": None, "threaded": True}
    running = page_server.listen(lambda: page_server.page(open_page), port, **options)
    wait_for(f"http://127.0.0.1:{port}/liveness")
    yield f"http://127.0.0.1:{port}/", stages, pages
    running.stop()


@pytest.fixture(scope="session")
def lab(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """A JupyterLab of its own: its address, and the folder it shows."""
    with running_lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture
def stage(server, program) -> Stage:
    server[1].append(Stage(Plan(program, "data:4 model:2", "batch:data")))
    return server[1][-1]


@pytest.fixture(scope="module")
def window(browser, browser_context_args) -> Iterator[Page]:
    """One page for a file of tests: a page that was open before shows a board twice as fast as a new one."""
    context = browser.new_context(**browser_context_args)
    yield context.new_page()
    context.close()


@pytest.fixture
def page(window, browser_context_args) -> Iterator[Page]:
    """That page, which every test leaves as it was given; a board of `open_board` stays for the next test to replace."""
    window.bring_to_front()  # JupyterLab's may have been opened since, and Firefox gives the focus to one window only
    yield window
    for each in window.context.pages:
        if each is not window:
            each.close()
    window.mouse.up()
    window.keyboard.up("Shift")
    forget(window)
    if window.evaluate(OPENED) is None:
        leave(window)
        forget(window)  # what the board wrote as it was left, too
    window.context.clear_permissions()
    window.emulate_media(color_scheme="null", reduced_motion=browser_context_args["reduced_motion"])
    window.set_viewport_size(browser_context_args["viewport"])


def forget(page: Page) -> None:
    page.evaluate("() => { try { sessionStorage.clear(); localStorage.clear(); } catch { /* of a page that nobody answered for */ } }")


def leave(page: Page) -> None:
    """For a bare page of the same server, if that is still there: for one of another, the browser would start another process, and that
    would parse everything anew."""
    bare = urljoin(page.url, "/liveness")
    page.goto(bare if answers(bare) else "about:blank")


@pytest.fixture
def context(page) -> BrowserContext:
    return page.context


@contextmanager
def within_this_machine(page) -> Iterator:
    """The page reaches this machine alone, and fails its test if it tried to reach another or a script broke. A route would see as much,
    but with one the browser keeps nothing that it has fetched."""
    reached, broken = [], []

    def look(request: Request) -> None:
        found = urlparse(request.url)
        if found.hostname not in (*HERE, None) or found.scheme == "file":
            reached.append(request.url)

    heard = {
        "request": look,
        "pageerror": lambda error: broken.append(f"{error}\n{error.stack}"),
        "console": lambda told: broken.append(told.text) if "Content Security Policy" in told.text else None,
    }
    for event, hear in heard.items():
        page.on(event, hear)
    yield page
    for event, hear in heard.items():
        page.remove_listener(event, hear)
    assert reached == [], f"the page reached out to {reached}"
    assert broken == [], f"a script broke: {broken}"


@pytest.fixture
def guarded(page) -> Iterator:
    with within_this_machine(page):
        yield page


@pytest.fixture(scope="module")
def desk(lab, browser, browser_context_args) -> Iterator:
    """JupyterLab open in one window, for all tests of a module: loading it takes longer than most of them."""
    context = browser.new_context(**browser_context_args)
    with within_this_machine(context.new_page()) as page:
        open_lab(page, lab[0])
        yield page
    context.close()


OPENED = "() => (window.Bokeh && document.documentElement.dataset.opened) ?? null"
"""The number of the page among those of the server, if it has not been left since."""


def open_board(page: Page, server: tuple[str, list[Stage], list[OpenPage]]) -> Page:
    """The board of the present stage on the page, in the place of the one that `open_board` has shown there before."""
    url, _, pages = server
    if (number := page.evaluate(OPENED)) is None:
        page.goto(url)
        page.locator(".wb .chip").first.wait_for()
        page.evaluate("(number) => { document.documentElement.dataset.opened = number; }", len(pages) - 1)
    else:
        page.locator(".wb").evaluate_all("(boards) => { for (const each of boards) each.dataset.left = ''; scrollTo(0, 0); }")
        pages[int(number)].show_again()
        page.locator(".wb:not([data-left]) .chip").first.wait_for()
    return page


@pytest.fixture
def board(guarded, server, stage):
    """The page of `stage`, open."""
    return open_board(guarded, server)
