"""Twenty tasks of an engineer, a student, a lecturer and the lead of a team, from a fresh start to the answer: actions and seconds of each.

Each task begins with a page that was just loaded, in headless Chromium, and ends when its answer is on the screen. An action is a click, a
key, a drag, or a text that is typed into one field. A task fails where it takes more actions than it may, or its answer does not come.

    python benchmarks/first_minutes.py [--quick] [--json]

`--quick` does the ten tasks that wait for no search and no tracing of a large model.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from playwright.sync_api import Browser, Error, Locator, Page, expect, sync_playwright

from tests.install_browsers import system_chromium
from tests.support.servers import free_port, wait_for
from tests.support.team_pages import in_thread
from tests.support.team_server import new_store, team_server
from tests.support.team_store import fill_team
from tests.support.team_world import parts_of_server, people_world
from workbench.team.pages.page_routes import page_routes

ANSWER = 90_000  # milliseconds within which an answer comes, on a busy machine
MINE = """
import jax, jax.numpy as jnp, optax
import workbench as wb

def loss(params, batch):
    x = params["embedding"][batch["tokens"]]
    x, _ = jax.lax.scan(lambda x, w: (x + jax.nn.gelu(x @ w[0]) @ w[1], None), x, (params["up"], params["down"]))
    return -jnp.mean(jax.nn.log_softmax(x @ params["embedding"].T))

def program() -> wb.Program:
    shapes = {"embedding": (32000, 1024), "up": (8, 1024, 4096), "down": (8, 4096, 1024)}
    params = {name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in shapes.items()}
    return wb.trace_training(loss, params, {"tokens": jax.ShapeDtypeStruct((64, 1024), "int32")}, optimizer=optax.adamw(1e-3))
"""


@dataclass
class Hand:
    """A person's hand on a page; `actions` counts what it did."""

    page: Page
    actions: int = 0

    def click(self, place: Locator) -> None:
        place.first.click(timeout=ANSWER)
        self.actions += 1

    def button(self, name: str, *, exact: bool = True) -> None:
        self.click(self.page.get_by_role("button", name=name, exact=exact))

    def link(self, name: str) -> None:
        self.click(self.page.get_by_role("link", name=name))

    def write(self, place: Locator, text: str) -> None:
        place.first.fill(text, timeout=ANSWER)
        self.actions += 1

    def choose(self, label: str, option: str) -> None:
        self.page.get_by_label(label).select_option(option)
        self.actions += 1

    def drag(self, source: str, target: str) -> None:
        self.page.locator(source).first.drag_to(self.page.locator(target).first, timeout=ANSWER)
        self.actions += 1

    def see(self, selector: str, text: str = "") -> None:
        """Wait for the answer."""
        expect(self.page.locator(selector).first).to_be_visible(timeout=ANSWER)
        expect(self.page.locator(selector).first).to_contain_text(text, timeout=ANSWER)


def fits(hand: Hand) -> None:
    hand.button("llama3-8b decoder 8.03B parameters")
    hand.button("8 H100")
    hand.see(".start[data-waiting=false] .headline", "fits on 8 H100")
    hand.button("Fastest")
    hand.see(".figures", "on 8 H100")


def own_function(hand: Hand) -> None:
    hand.button("mine:program")
    hand.button("64 H100")
    hand.see(".start[data-waiting=false] .headline", "fits on 8 nodes of 8 H100")
    hand.button("Fastest")
    hand.see(".figures", "on 8 nodes of 8 H100")


def to_board(hand: Hand) -> None:
    """The board of the example, which is where the tasks of a board begin."""
    hand.page.get_by_role("button", name="Go to the board").click(timeout=ANSWER)
    hand.page.locator(".zone .chip").first.wait_for(timeout=ANSWER)


def drop(hand: Hand) -> None:
    hand.drag('.chip [data-dim="d_ff"]', '.zone[data-axis="model"]')
    hand.see(".head .layout", "d_ff:model")


def undo(hand: Hand) -> None:
    drop(hand)
    hand.page.keyboard.press("Control+z")
    hand.actions += 1
    expect(hand.page.locator(".head .layout")).not_to_contain_text("d_ff", timeout=ANSWER)


def where_memory_goes(hand: Hand) -> None:
    hand.click(hand.page.get_by_role("tab", name="Memory"))
    hand.see('.tables:not(.opening) [data-picture="memory over the step"]')


def why_memory(hand: Hand) -> None:
    hand.click(hand.page.locator(".figures .ask"))
    hand.see(".inspector", "71.3 MiB")


def other_hardware(hand: Hand) -> None:
    hand.page.locator(".picker .chipname").first.select_option("H100")
    hand.actions += 1
    hand.see(".figures", "Step, predicted")


def recipe(hand: Hand) -> None:
    hand.button("Recipes", exact=False)
    hand.see(".recipes", "Megatron")


def find(hand: Hand) -> None:
    hand.click(hand.page.locator("[data-verb=open-find]"))
    hand.click(hand.page.locator(".sentence").get_by_role("button", name="Find", exact=True))
    hand.see(".search-form .present-plan", "best found")


def to_lesson(hand: Hand) -> None:
    hand.click(hand.page.locator(".lessons summary"))
    hand.link("One product on two devices")
    hand.see(".lesson", "One product on two devices")


def answer(hand: Hand) -> None:
    hand.button("Question 3 show on the board")
    hand.write(hand.page.get_by_role("textbox", name="your answer"), "2 MiB")
    hand.button("Check")
    hand.see(".exercise .verdict", "Right.")
    hand.button("Next: question 4")
    hand.see('.exercise .step[aria-current="step"]', "4")


def progress(hand: Hand) -> None:
    hand.link("All lessons")
    hand.see(".lessons", "questions answered correctly")


def assign(hand: Hand) -> None:
    hand.link("Assignments")
    hand.click(hand.page.get_by_text("Assign a lesson"))
    hand.page.get_by_label("Lesson", exact=True).select_option("propagation")
    hand.actions += 1
    hand.button("Hand it out")
    hand.see("main", "is handed out")


def compare(hand: Hand) -> None:
    for place in (0, 1):
        hand.click(hand.page.get_by_label("Compare ").nth(place))
    hand.button("Compare the ticked")
    hand.see("main", "2 plans compared")


def lightest(hand: Hand) -> None:
    hand.click(hand.page.get_by_role("columnheader", name="Peak").get_by_role("link"))
    hand.see(".plan-row th a", "Tensor parallel")


def baseline(hand: Hand) -> None:
    hand.link("Baseline is Data parallel")
    hand.see(".found", "baseline: Data parallel")


def new_plan(hand: Hand) -> None:
    hand.link("New plan")
    hand.write(hand.page.get_by_label("Name of the plan"), "My first")
    hand.button("Begin")
    hand.see("main", "My first")


def failed_job(hand: Hand) -> None:
    hand.see("main", "Needs attention")
    hand.link("run of Two axes, again")
    hand.see("main", "The device ran out of memory")


def begin_work(hand: Hand) -> None:
    hand.link("Week 3")
    hand.see("main", "My answer")


@dataclass(frozen=True)
class Task:
    """What somebody wants, on which page it begins, and in how many actions it is done at most."""

    wants: str
    who: str
    at: str
    most: int
    do: Callable[[Hand], None]
    is_quick: bool = True
    begin: Callable[[Hand], None] = lambda _: None


BOARD, TEAM = "?", "/p/vision/"
TASKS = (
    Task("Does Llama 3 8B fit on 8 H100, and what is fastest", "engineer", BOARD, 3, fits, is_quick=False),
    Task("my own function on 64 chips", "engineer", BOARD, 5, own_function, is_quick=False),
    Task("shard a dimension", "engineer", BOARD, 1, drop, begin=to_board),
    Task("take it back", "engineer", BOARD, 2, undo, begin=to_board),
    Task("where the memory goes", "engineer", BOARD, 1, where_memory_goes, begin=to_board),
    Task("why the memory is what it is", "engineer", BOARD, 1, why_memory, begin=to_board, is_quick=False),
    Task("the same plan on another chip", "engineer", BOARD, 1, other_hardware, begin=to_board, is_quick=False),
    Task("which recipes there are", "engineer", BOARD, 1, recipe, begin=to_board, is_quick=False),
    Task("find a faster plan", "engineer", BOARD, 2, find, begin=to_board, is_quick=False),
    Task("open the first lesson", "student", BOARD, 2, to_lesson, is_quick=False),
    Task("answer a question and go on to the next", "student", "?lesson=one_product", 4, answer),
    Task("how far I am", "student", "?lesson=one_product", 1, progress, is_quick=False),
    Task("my assignments", "stu", "/", 1, begin_work),
    Task("assign lesson 3 to my class", "ed", TEAM, 4, assign),
    Task("compare two plans of the gallery", "ada", TEAM, 3, compare),
    Task("the plan with the least memory", "ada", TEAM, 1, lightest),
    Task("all plans against the one that we run", "ada", TEAM, 1, baseline, is_quick=False),
    Task("begin a plan", "ada", "/", 3, new_plan, is_quick=False),
    Task("why my job failed", "ada", "/", 1, failed_job),
    Task("the plans that fit", "ada", TEAM, 1, lambda hand: (hand.choose("Fits its devices", "yes"), hand.see(".found", "5 of 6"))[1]),
)


@contextmanager
def workbench_served(folder: Path) -> Iterator[str]:
    """`workbench serve` as a person starts it, in a folder with a model of theirs."""
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    port = free_port()
    command = [sys.executable, "-m", "workbench", "serve", "--no-open", "--port", str(port), "--allow", "mine"]
    environment = {**os.environ, "WORKBENCH_STATE": str(folder / "state"), "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            wait_for(f"http://127.0.0.1:{port}/liveness")
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()


@contextmanager
def team_served(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A team that has worked for a while: its address, and the cookie of each person."""
    store = new_store(folder)
    serving = team_server(folder, page_routes(), store=store, **parts_of_server(store))
    running = in_thread(serving.__enter__)
    world = in_thread(lambda: fill_team(people_world(store, running.services)))
    yield running.services.address, world.cookies
    in_thread(serving.__exit__, None, None, None)


def measure(browser: Browser, task: Task, address: str, cookies: dict[str, str]) -> dict[str, object]:
    """The actions and seconds of a task, and why it was not done."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    if task.who in cookies:
        context.add_cookies([{"name": "workbench", "value": cookies[task.who], "url": address}])
    page = context.new_page()
    hand, problem = Hand(page), ""
    try:
        page.goto(f"{address.rstrip('/')}/{task.at.lstrip('/')}")
        task.begin(hand)
        started = time.perf_counter()
        task.do(hand)
    except (Error, AssertionError) as error:
        problem = str(error).splitlines()[0][:200]
        started = time.perf_counter()
    seconds = time.perf_counter() - started
    context.close()
    problem = problem or (f"{hand.actions} actions" if hand.actions > task.most else "")
    print(
        f"{'FAILED' if problem else 'done'}: {task.wants}: {hand.actions} of {task.most} actions, {seconds:.1f} s {problem}",
        file=sys.stderr,
    )
    return {
        "task": task.wants,
        "who": task.who,
        "actions": hand.actions,
        "most": task.most,
        "seconds": round(seconds, 1),
        "problem": problem,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the ten quick tasks alone")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    tasks = [each for each in TASKS if each.is_quick or not options.quick]
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch(executable_path=system_chromium() or None)
        with workbench_served(folder) as address, team_served(folder / "team") as (team, cookies):
            rows = [measure(browser, each, team if each.who in cookies else address, cookies) for each in tasks]
        browser.close()
    record = {"tasks": rows, "done": sum(not each["problem"] for each in rows), "of": len(rows)}
    print(json.dumps(record) if options.json else f"{record['done']} of {record['of']} tasks done")
    sys.exit(record["done"] < record["of"])


if __name__ == "__main__":
    main()
