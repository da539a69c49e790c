"""Frames a second while a timeline of 100,000 events is panned and zoomed, in headless Chromium with software rendering.

The board's own front end draws the timeline of a step whose profile has that many events (random lengths and gaps, seeded), a collective in
two parts. The hand then turns the wheel with the control key held, in and out again, drags the chart to and fro there, and drags it again
where nearly all of the step is seen. A frame counts if what is seen has changed since the frame before; `worst_ms` is the longest time
between two of them, the 95th percentile in `p95_ms`.

    python benchmarks/timeline_fps.py [--quick] [--json]

`timeline_fps` is of the slowest of the gestures. The goal: 30.
"""

import argparse
import itertools
import json
import random
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

import workbench as wb
from workbench.models import build
from workbench.reports.device_trace import Trace, TraceEvent, summarize_trace
from workbench.session.plan_history import Session
from workbench.visualize.charts.chart import bokeh_script
from workbench.visualize.charts.timeline_chart import timeline_chart
from workbench.visualize.draw.picture import Picture
from workbench.widgets.board.board import Board
from workbench.widgets.front_end import module_text
from workbench.widgets.tabs.table_blocks import as_json, picture_block

EVENTS = 100_000
GOAL = 30.0
STREAMS = ("compute", "data", "model", "data+model", "compute")
BROWSER = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
PAGE = """<!doctype html><meta charset="utf-8"><body><div id="board"></div><script src="bokeh.js"></script><script type="module">
import board from "./board.js";
const parts = await (await fetch("parts.json")).json();
const get = (name) => parts[name] ?? { theme: "light", tour: false, gesture: {} }[name];
const model = { get, set() {}, save_changes() {}, on() {}, off() {} };
board.render({ model, el: document.getElementById("board") });
</script>"""
WATCH = """() => {
  const doc = window.Bokeh.documents.find((each) => each.get_model_by_name("blocks")), range = doc.get_model_by_name("x");
  const seen = window.frames_seen = [];
  let last = [range.start, range.end];
  const frame = (now) => {
    if (range.start !== last[0] || range.end !== last[1]) { seen.push(now); last = [range.start, range.end]; }
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""


def profile(count: int) -> Trace:
    """A step of so many events on one device; names and paths recur, as they do in layers."""
    chance = random.Random(0)  # noqa: S311 - no secret
    at = dict.fromkeys(set(STREAMS), 0.0)
    events = []
    for number in range(count):
        stream, seconds = STREAMS[number % len(STREAMS)], chance.lognormvariate(-12.5, 1.2)
        start = at[stream] + chance.expovariate(1 / 2e-6)
        at[stream] = start + seconds
        name, path = f"fusion.{number % 400}", f"layers/block_{number % 96}/mlp/dot_general"
        kind = "fusion" if stream == "compute" else "all-reduce"
        events.append(TraceEvent(0, stream, name, kind, path, f"gpt.py:{number % 200}", start, seconds))
    return summarize_trace(events, most=count)


def write_page(folder: Path, count: int) -> int:
    """The page and what it loads; returns how many events its timeline has."""
    published: dict[str, Any] = {}
    plan = wb.Plan(build("two_layer", batch=16, io=8, hidden=16), "data:4 model:2", "batch:data")
    Board(Session(plan), published.__setitem__).close()
    chart = timeline_chart(plan.report(), profile(count))
    assert chart is not None
    about = f"a step of {chart.spans[0].count:,} events"
    block = as_json(picture_block(Picture.of_title(about), name="timeline", charts=[chart]), lambda _name: False)
    published["table"] = {**published["table"], "tab": "timeline", "search": None, "blocks": [block]}
    (folder / "parts.json").write_text(json.dumps(published), encoding="utf-8")
    (folder / "board.js").write_text(module_text(), encoding="utf-8")
    (folder / "bokeh.js").write_text(bokeh_script(), encoding="utf-8")
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    return chart.spans[0].count


def open_page(page: Page, folder: Path) -> None:
    """Served from the folder by the test's own browser: nothing listens."""
    kinds = {".html": "text/html", ".js": "text/javascript", ".json": "application/json"}

    def fulfil(route: Any) -> None:
        file = folder / route.request.url.rsplit("/", 1)[-1]
        body = file.read_bytes() if file.exists() else b""
        route.fulfill(status=200 if body else 404, body=body, content_type=kinds.get(file.suffix, "text/plain"))

    page.route("http://timeline.test/**", fulfil)
    page.goto("http://timeline.test/index.html")
    page.locator(".chart[data-drawn=true]").wait_for(timeout=60_000)
    page.wait_for_timeout(500)
    page.locator(".chart .plot").scroll_into_view_if_needed()
    page.evaluate(WATCH)


def to_middle(page: Page) -> tuple[float, float]:
    """The pointer in the middle of the chart."""
    box = page.locator(".chart .plot").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    return x, y


def drag(page: Page, moves: int, by: float) -> None:
    """To and fro, `by` pixels in all."""
    x, y = to_middle(page)
    page.mouse.down()
    for number in range(moves):
        page.mouse.move(x + by * abs((number % 60) / 30 - 1) - by / 2, y)
    page.mouse.up()


TURN = """([turns, x, y]) => new Promise((done) => {
  let at = document.elementFromPoint(x, y);
  while (at.shadowRoot?.elementFromPoint(x, y) && at.shadowRoot.elementFromPoint(x, y) !== at) at = at.shadowRoot.elementFromPoint(x, y);
  let number = 0;
  const turn = () => {
    if (number === turns) return done();
    const deltaY = number++ < turns * 0.6 ? -40 : 40, how = { bubbles: true, composed: true, cancelable: true };
    at.dispatchEvent(new WheelEvent("wheel", { deltaY, ctrlKey: true, clientX: x, clientY: y, ...how }));
    requestAnimationFrame(turn);
  };
  requestAnimationFrame(turn);
})"""


def turn_wheel(page: Page, turns: int) -> None:
    """In, then out again, a turn a frame: the driver's own wheel waits for two frames after each."""
    page.evaluate(TURN, [turns, *to_middle(page)])


def frames_of(page: Page, act: Any) -> dict[str, float]:
    """Frames a second, and the times between frames, while `act` is done."""
    page.evaluate("frames_seen.length = 0")
    act()
    page.wait_for_timeout(50)
    times = page.evaluate("frames_seen.slice()")
    gaps = sorted(after - before for before, after in itertools.pairwise(times))
    assert len(gaps) > 10, f"only {len(times)} frames changed"
    p95 = gaps[round(0.95 * (len(gaps) - 1))]
    return {"fps": 1000 * len(gaps) / (times[-1] - times[0]), "p95_ms": p95, "worst_ms": gaps[-1], "median_ms": statistics.median(gaps)}


def measure(count: int, moves: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        found = write_page(Path(folder), count)
        browser = play.chromium.launch(executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=list(BROWSER))
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        open_page(page, Path(folder))
        zoom = frames_of(page, lambda: turn_wheel(page, moves))
        pan = frames_of(page, lambda: drag(page, moves, 300.0))
        page.get_by_role("button", name="Reset zoom").click()
        page.get_by_role("button", name="Zoom in").click()  # over the whole, a step cannot be dragged
        wide = frames_of(page, lambda: drag(page, moves, 300.0))
        browser.close()
    gestures = {"zoom": zoom, "pan_zoomed": pan, "pan_wide": wide}
    return {"timeline_fps": round(min(each["fps"] for each in gestures.values()), 1), "events": found, "gestures": gestures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer moves; under 45 s")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args()
    found = measure(EVENTS, 120 if options.quick else 600)
    for name, each in found["gestures"].items():
        frames = f"{each['fps']:5.1f} frames a second, {each['median_ms']:5.1f} ms median"
        print(f"{name:10} {frames}, {each['p95_ms']:6.1f} ms p95, {each['worst_ms']:6.1f} at worst")
    print(f"{found['events']:,} events: {found['timeline_fps']} frames a second; the goal is {GOAL:.0f}")
    if options.json:
        rounded = {name: {key: round(value, 1) for key, value in each.items()} for name, each in found["gestures"].items()}
        print(json.dumps({**found, "gestures": rounded}))


if __name__ == "__main__":
    main()
