"""Charts that Bokeh draws on the board, as a test reads and points at them."""

from contextlib import suppress
from typing import Any, Literal

from playwright.sync_api import Locator, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

VIEW = """const element = chart.querySelector(".plot"), view = [...Bokeh.index.roots].find((each) => element.contains(each.el)),
  doc = view.model.document, named = (name) => doc.get_model_by_name(name), marks = named("marks") ?? named("blocks");"""


FRAME = "requestAnimationFrame"
STILL = 120
"""Milliseconds after which a timeline is drawn and named anew (`chart_timeline.js`)."""


def drawn(within: Locator) -> Locator:
    """The first chart in a place, once Bokeh has drawn it."""
    chart = within.locator(".chart[data-drawn=true]").first
    chart.wait_for()
    wait_until_still(chart.page)
    return chart


def wait_until_still(page: Page) -> None:
    """Wait until what moved is drawn again, and named. The timers are the page's, as the chart's are: a slow machine waits longer."""
    page.evaluate(f"() => new Promise((done) => {FRAME}(() => {FRAME}(() => setTimeout(done, {STILL + 10}))))")


def column(chart: Locator, name: str) -> list[Any]:
    """A column of what can be pointed at."""
    return chart.evaluate(f"(chart, name) => {{ {VIEW} return [...(marks.data[name] ?? [])]; }}", name)


def selected(chart: Locator, name: str = "subject") -> set[Any]:
    """That column of what is marked."""
    return set(chart.evaluate(f"(chart, name) => {{ {VIEW} return marks.selected.indices.map((i) => marks.data[name][i]); }}", name))


def seen(chart: Locator) -> list[float]:
    """The part of the x axis that is seen."""
    return chart.evaluate(f"(chart) => {{ {VIEW} const {{ start, end }} = named('x'); return [start, end]; }}")


def place(chart: Locator, index: int) -> tuple[float, float]:
    """The middle of a mark on the page, in pixels."""
    script = f"""(chart, i) => {{ {VIEW}
      const {{ data }} = marks, x = data.x ? data.x[i] : (data.left[i] + data.right[i]) / 2;
      const y = data.y ? data.y[i] : (data.top[i] + (data.bottom?.[i] ?? 0)) / 2, box = element.getBoundingClientRect();
      return [box.left + view.frame.x_scale.compute(x), box.top + view.frame.y_scale.compute(y)];
    }}"""
    x, y = chart.evaluate(script, index)
    return x, y


def click(chart: Locator, index: int) -> None:
    """With the mouse, as a person does; never so soon that BokehJS takes it for the second half of a double click, which does nothing."""
    chart.scroll_into_view_if_needed()
    chart.page.wait_for_timeout(350)
    chart.page.mouse.click(*place(chart, index))


def click_for(chart: Locator, index: int, what: Locator, state: Literal["visible", "hidden"] = "visible") -> None:
    """Click until something is there, or gone: where much else is done BokehJS takes a click for a long press, which does nothing."""
    for patience in (5_000, 20_000):
        click(chart, index)
        with suppress(PlaywrightTimeout):
            what.wait_for(state=state, timeout=patience)
            return
