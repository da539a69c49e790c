"""What is painted in a room: two browsers, of which one edits and both show it.

Measured in the pages, from the `pointerup` event of the one that edits to the frame after that in which a board shows the dimension in its
new zone, and the figures with it. Both browsers have one clock, that of the machine.
"""

import shutil
import time
from typing import Any

from drop_latency import BROWSER, centre
from playwright.sync_api import Browser, Page, sync_playwright
from team_served import ServedTeam

PATIENCE = 60_000  # milliseconds
PAUSE = 1.5  # seconds between two drags
WATCH = """root => {
  const times = window.roomTimes = { up: 0, painted: 0, before: '' };
  const held = window.roomHeld = () => [...root.querySelectorAll('.zone')].map((zone) =>
    `${zone.dataset.axis}:${[...zone.querySelectorAll('.grip')].map((grip) => grip.dataset.dim).join()}`).join(';')
    + root.querySelector('.figures')?.textContent;
  window.addEventListener('pointerup', (event) => { times.up = performance.timeOrigin + event.timeStamp; }, true);
  let isDue = false;
  new MutationObserver(() => {
    if (isDue || times.painted || !times.before || held() === times.before) return;
    isDue = true;
    requestAnimationFrame(() => {
      const after = new MessageChannel();
      after.port1.onmessage = () => { times.painted = performance.timeOrigin + performance.now(); isDue = false; };
      after.port2.postMessage(0);
    });
  }).observe(root, { childList: true, subtree: true, characterData: true });
  window.roomAnswered = 0;
  new MutationObserver(() => {
    requestAnimationFrame(() => {
      const after = new MessageChannel();
      after.port1.onmessage = () => { window.roomAnswered = performance.timeOrigin + performance.now(); };
      after.port2.postMessage(0);
    });
  }).observe(root, { attributes: true, attributeFilter: ['data-answered'] });
}"""
"""The one that edits shows the dimension where it was dropped before it is answered: there the mark of the answer is watched."""
ARM = "() => { Object.assign(roomTimes, { up: 0, painted: 0, before: roomHeld() }); roomAnswered = 0; }"

Painted = list[tuple[str, list[float], int]]
"""Names of figures, each with seconds, and the percentile of them that it is."""


def measure(team: ServedTeam, seconds: float) -> Painted:
    """Seconds until the author's figures were painted, until the other's were, and until each page showed its first board."""
    opened: list[float] = []
    times: list[tuple[float, float]] = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=list(BROWSER))
        author, other = (_open(browser, team, place, opened) for place in (0, 1))
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            times.append(_drag(author, other))
            time.sleep(PAUSE)
        browser.close()
    mine, theirs = ([each[place] for each in times[1:]] for place in (0, 1))  # the first warms up
    return [
        ("painted_author_p50_ms", mine, 50),
        ("painted_author_p95_ms", mine, 95),
        ("painted_others_p50_ms", theirs, 50),
        ("painted_others_p95_ms", theirs, 95),
        ("painted_first_board_ms", opened, 50),
    ]


def _open(browser: Browser, team: ServedTeam, place: int, opened: list[float]) -> Page:
    name, _, value = team.cookies[place].partition("=")
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, bypass_csp=True)  # waiting for a function is an `eval`
    context.add_cookies([{"name": name, "value": value, "url": team.url}])
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    begun = time.monotonic()
    page.goto(team.untouched_room)
    page.locator(".wb .chip").first.wait_for()
    opened.append(time.monotonic() - begun)
    page.evaluate_handle(WATCH, page.locator(".wb").element_handle())
    return page


def _drag(author: Page, other: Page) -> tuple[float, float]:
    """Seconds of one drag of `d_ff` onto `model`, or off it: for the one that drags, and for the other."""
    is_there = author.locator('.zone[data-axis="model"] .grip[data-dim="d_ff"]').count() > 0
    source, target = ("model", "") if is_there else ("", "model")
    author.mouse.move(*centre(author, f'.zone[data-axis="{source}"] .grip[data-dim="d_ff"]'))
    author.mouse.down()
    x, y = centre(author, f'.zone[data-axis="{target}"]')
    author.mouse.move(x, y + 25, steps=3)
    for page in (author, other):
        page.evaluate(ARM)
    author.mouse.up()
    author.wait_for_function("roomAnswered > 0")
    other.wait_for_function("roomTimes.painted > 0")
    up: float = author.evaluate("roomTimes.up")
    shown: Any = author.evaluate("roomAnswered"), other.evaluate("roomTimes.painted")
    return (shown[0] - up) / 1000, (shown[1] - up) / 1000
