"""The pictures of the README: opens each view of the page in both themes, and writes docs/*.png. Run by hand: `python docs/screenshots.py`.

With names it takes those alone: `python docs/screenshots.py graph memory`. It needs Chromium, as the tests do, and takes about a minute.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from PIL import Image
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from tests.install_browsers import system_chromium
from tests.support.servers import free_port, wait_for
from tests.support.tabs import open_tab
from workbench.app.page.fleet_page import serve_fleet
from workbench.app.page.serve import serve
from workbench.documents.fleet_files import parse_fleet
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.team.access import ProjectRole
from workbench.team.accounts.logins import issue_login
from workbench.team.accounts.user_accounts import add_project, add_user, set_role
from workbench.team.actions.plans import store_plan
from workbench.team.planning.grade_answers import describe_plan
from workbench.team.store.store import Store, new_id, now
from workbench.team.store.tables import StoredRoom

WIDTH, HEIGHT = 1440, 1000
COLOURS = 256  # of a palette: half the bytes, and no difference to be seen
MOST_BYTES = 150_000


def plan() -> Plan:
    """GPT-2 on a slice of sixteen TPUs."""
    program = build("gpt", preset="gpt2-small", scan=True, batch=32)
    return Plan(program, "data:8 model:2", "batch:data; d_ff:model; heads:model", hardware=parse_hardware("TPU v5e 4x4"))


def tab(name: str) -> Callable[[Page], Locator]:
    """A tab with its pictures and tables, without what stands above it."""

    def opened(page: Page) -> Locator:
        tables = open_tab(page, name)
        tables.get_by_text("Computing the").wait_for(state="detached", timeout=60_000)  # what is found out in the background
        page.wait_for_timeout(600)  # charts are drawn a moment after their place
        return tables

    return opened


def whole(page: Page) -> Locator:
    """The card as one meets it."""
    tab("overview")(page)
    return page.locator(".wb .card")


def history(page: Page) -> Locator:
    """Some edits and a branch, two plans compared, and the drawer that lists them."""
    card = whole(page)
    for dim, steps in (("vocab", 2), ("d_model", 1)):
        place(page, dim, steps)
    page.locator("[data-verb=undo]").click()
    place(page, "seq", 2)
    page.locator("[data-verb=history]").click()
    return card


def place(page: Page, dim: str, steps: int) -> None:
    """A dimension onto the mesh axis so many zones to the right, by keyboard."""
    page.locator(f'.zone .grip[data-dim="{dim}"]').first.focus()
    for key in (" ", *["ArrowRight"] * steps, " "):
        page.keyboard.press(key)
    page.locator(".wb[data-busy=false]").wait_for()
    page.wait_for_timeout(500)


Server = Any
GRID = """
memory = "24 MiB"
devices = 2
[[models]]
name = "gpt"
program = "gpt"
mini_batches = 6
grid = { layers = [2, 4], batch = [8, 16] }
"""


def trained(page: Page) -> Locator:
    """A fleet's board, once its units are timed and its models trained."""
    page.locator(".fleet").wait_for(timeout=60_000)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("peak memory of a device").wait_for(timeout=240_000)
    return page.locator(".wb .card")


def pipelined() -> Plan:
    """GPT-2's twelve layers on four stages of four TPUs."""
    spec = "stages:4 micro_batches:8 schedule:1f1b"
    program = build("gpt", preset="gpt2-small", scan=True, batch=64)
    return Plan(program, "stage:4 data:4", "batch:data", hardware=parse_hardware("TPU v5e 4x4"), pipeline=spec)


def served_fleet(port: int) -> Server:
    return serve_fleet(parse_fleet(GRID), port, open_browser=False, path="grid.toml", threaded=True)


def served(make: Callable[[], Plan]) -> Callable[[int], Server]:
    return lambda port: serve(make(), port=port, open_browser=False, threaded=True)


TABS = ("tensors", "devices", "communication", "memory", "step", "timeline", "graph", "values", "propagation")
PAGES: dict[Callable[[int], Server], dict[str, Callable[[Page], Locator]]] = {
    served(plan): {"workbench": whole, **{name: tab(name) for name in TABS}, "history": history},  # the last edits the plan
    served(pipelined): {"pipeline": tab("pipeline")},
    served_fleet: {"fleet": trained},
}


def shoot(page: Page, name: str, view: Callable[[Page], Locator], theme: str) -> Path:
    """One view, as a file with a palette."""
    shown = view(page)
    page.locator(".wb[data-busy=true]").wait_for(state="detached")
    page.mouse.move(0, 0)
    page.wait_for_timeout(300)
    taken = Image.open(BytesIO(shown.screenshot())).convert("RGB")
    target = ROOT / "docs" / (f"{name}.png" if theme == "light" else f"{name}-dark.png")
    taken.crop((0, 0, taken.width, min(taken.height, HEIGHT))).quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
    return target


def take(browser: Browser, start: Callable[[int], Server], views: Mapping[str, Callable[[Page], Locator]]) -> None:
    """Views of one page, light ones as `name.png`, dark ones as `name-dark.png`."""
    port = free_port()
    running = start(port)
    wait_for(f"http://127.0.0.1:{port}/liveness")
    for theme in ("light", "dark"):
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=theme, reduced_motion="reduce")
        page.goto(f"http://127.0.0.1:{port}/")
        page.locator(".wb .card").wait_for(timeout=60_000)
        for name, view in views.items():
            target = shoot(page, name, view, theme)
            size = target.stat().st_size
            print(f"{target.relative_to(ROOT)}  {size / 1000:.0f} kB{'  more than it should be' * (size > MOST_BYTES)}")
        page.close()
    running.stop()


PEOPLE = ("ada", "Ada"), ("grace", "Grace")


@contextmanager
def served_rooms(port: int) -> Iterator[tuple[list[str], list[str]]]:
    """The addresses of rooms of a team's server that runs meanwhile, one for each theme, and the cookies of the two who may enter."""
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "workbench.cli", "team", "--data", data, "serve", "--listen", f"127.0.0.1:{port}"]
        with subprocess.Popen(command, cwd=ROOT) as server:  # noqa: S603 - this interpreter and this package
            try:
                wait_for(f"http://localhost:{port}/readyz")
                store = Store.open(f"sqlite:///{data}/team.db")
                rooms, cookies = add_rooms(store)
                store.close()
                yield [f"http://localhost:{port}/room/{room}" for room in rooms], cookies
            finally:
                server.terminate()


def add_rooms(store: Store) -> tuple[list[str], list[str]]:
    """Two rooms about the plan of the other pictures, and the logins of two people."""
    rooms, planned = [new_id(), new_id()], plan()
    described = describe_plan(planned, planned.report())
    with store.write() as session:
        people = [add_user(session, name, display) for name, display in PEOPLE]
        project = add_project(session, "vision", "Vision", owner=people[0].id)
        set_role(session, project.id, people[1].id, ProjectRole.EDITOR)
        store_plan(session, described)
        session.flush()
        shared = {"project_id": project.id, "by": people[0].id, "created": now(), "touched": now()}
        session.add_all(StoredRoom(id=room, name="GPT-2 on sixteen chips", first=described.digest, **shared) for room in rooms)
        return rooms, [issue_login(session, each.id, "local") for each in people]


def take_room(browser: Browser) -> None:
    """A room as one of two people has it, whose colleague edits the plan."""
    with served_rooms(free_port()) as (addresses, cookies):
        for theme, address in zip(("light", "dark"), addresses, strict=True):
            pages = [enter(browser, address, cookie, theme) for cookie in cookies]
            place(pages[1], "vocab", 2)
            pages[0].wait_for_timeout(4000)  # what the partitioner says of the edit
            print(shoot(pages[0], "room", lambda page: page.locator("body"), theme).name)
            for page in pages:
                page.context.close()


def enter(browser: Browser, address: str, cookie: str, theme: Any) -> Page:
    """The room's page of a person."""
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=theme, reduced_motion="reduce")
    context.add_cookies([{"name": "workbench", "value": cookie, "url": address}])
    page = context.new_page()
    page.goto(address)
    page.locator(".wb .card").wait_for(timeout=60_000)
    tab("tensors")(page)
    return page


def main(names: list[str]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=system_chromium(), args=["--no-sandbox", "--disable-gpu"])
        for start, views in PAGES.items():
            if wanted := {name: view for name, view in views.items() if not names or name in names}:
                take(browser, start, wanted)
        if not names or "room" in names:
            take_room(browser)
        browser.close()


if __name__ == "__main__":
    known = [*(name for views in PAGES.values() for name in views), "room"]
    unknown = [name for name in sys.argv[1:] if name not in known]
    if unknown:
        sys.exit(f"There is no view {unknown[0]}; there are {', '.join(known)}.")
    main(sys.argv[1:])
