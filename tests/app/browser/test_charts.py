"""Charts on the page: Bokeh draws them as wide as their place, they are pointed at, zoomed, and marked with what is selected anywhere."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.app.browser.conftest import open_board
from tests.app.browser.test_accessibility import findings_in_both
from tests.app.browser.test_page import drag
from tests.support import charts
from tests.support.choosing import share_of
from tests.support.tabs import open_tab
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan

CHARTS = ("memory", "roofline", "timeline")


@pytest.fixture(scope="module")
def planned() -> Plan:
    hardware = parse_hardware("TPU v5e 2x4")
    return Plan(build("gpt", scan=True), "data:4 model:2", "batch:data; d_ff:model; heads:model", hardware=hardware)


@pytest.fixture
def explored(guarded, server, stage, planned) -> Page:
    """The page of a small GPT on eight TPUs."""
    stage.make = lambda: planned
    return open_board(guarded, server)


def move_over(page: Page, plot: Locator) -> tuple[float, float]:
    """Bring a plot into view, and the mouse over it; where that is."""
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 3
    page.mouse.move(x, y)
    return x, y


def longest(chart: Locator) -> int:
    """The widest block of a timeline."""
    widths = [right - left for left, right in zip(charts.column(chart, "left"), charts.column(chart, "right"), strict=True)]
    return widths.index(max(widths))


def test_charts_are_as_wide_as_the_window_gives_and_can_be_used_by_everyone(explored, pytestconfig):
    audited = share_of(pytestconfig, CHARTS, 3)
    for tab in CHARTS:
        chart = charts.drawn(open_tab(explored, tab))
        for width in (1280, 1600):
            explored.set_viewport_size({"width": width, "height": 900})
            expect(chart.locator("canvas").first).to_be_visible()
            charts.wait_until_still(explored)
            wide = chart.locator(".plot").evaluate("plot => [plot.clientWidth, plot.firstElementChild.clientWidth]")
            assert abs(wide[0] - wide[1]) <= 1, (tab, width)
            assert wide[0] > 0.65 * width, (tab, width)
        if tab in audited:
            assert findings_in_both(explored) == {}, tab


def test_a_kernel_clicked_in_the_timeline_is_marked_in_every_view_with_its_source_line(explored):
    chart = charts.drawn(open_tab(explored, "timeline"))
    expect(explored.locator(".wb[data-settling=false]")).to_be_visible(timeout=60_000)  # no figure moves a kernel from now on
    charts.wait_until_still(explored)
    path = charts.column(chart, "subject")[longest(chart)]
    source = explored.locator(".source")
    charts.click_for(chart, longest(chart), source)
    expect(source.locator(".codeline")).to_have_count(11)
    expect(source.locator(".here .lineno")).to_have_text(source.locator("h2 .mono").inner_text().split(":")[1])
    charts.wait_until_still(explored)
    assert path in charts.selected(chart)
    roofline = charts.drawn(open_tab(explored, "roofline"))
    if path in charts.column(roofline, "subject"):
        assert path in charts.selected(roofline)
    expect(open_tab(explored, "kernels").locator("tr.chosen").first).to_be_visible()
    chart = charts.drawn(open_tab(explored, "timeline"))
    charts.click_for(chart, longest(chart), source, "hidden")
    expect(source).to_be_hidden()


def test_a_line_of_the_source_marks_all_that_it_makes(explored):
    tables = open_tab(explored, "kernels")
    tables.locator("tbody tr[data-subject]").first.click()
    here = explored.locator(".source .here .lineno")
    here.click()
    expect(here).to_have_attribute("aria-pressed", "true")
    line = explored.locator(".source h2 .mono").inner_text()
    rows = tables.locator("tr.chosen td:last-child")
    expect(rows.first).to_have_text(line)
    assert set(rows.all_inner_texts()) == {line}
    assert charts.selected(charts.drawn(open_tab(explored, "roofline")))


def test_a_timeline_is_zoomed_by_wheel_keys_and_box_and_stays_there_after_an_edit(explored):
    chart = charts.drawn(open_tab(explored, "timeline"))
    plot, whole = chart.locator(".plot"), charts.seen(chart)
    move_over(explored, plot)
    explored.mouse.wheel(0, 200)
    charts.wait_until_still(explored)
    assert charts.seen(chart) == whole, "without the control key the page is scrolled"
    move_over(explored, plot)
    explored.keyboard.down("Control")
    explored.mouse.wheel(0, -400)
    explored.keyboard.up("Control")
    charts.wait_until_still(explored)
    zoomed = charts.seen(chart)
    assert zoomed[1] - zoomed[0] < whole[1] - whole[0]
    plot.focus()
    explored.keyboard.press("d")
    assert charts.seen(chart)[0] > zoomed[0]
    explored.keyboard.press("0")
    assert charts.seen(chart) == whole
    explored.keyboard.down("Shift")
    x, y = move_over(explored, plot)
    explored.mouse.down()
    explored.mouse.move(x + 100, y, steps=4)
    explored.mouse.up()
    explored.keyboard.up("Shift")
    charts.wait_until_still(explored)
    boxed = charts.seen(chart)
    assert boxed[1] - boxed[0] == pytest.approx((whole[1] - whole[0]) * 100 / charts_width(chart), rel=0.1)
    before = charts.column(chart, "title")
    explored.locator("[data-verb=undo]").wait_for()
    explored.get_by_label("Menu of mesh axis data").click()
    explored.keyboard.press("Escape")
    open_tab(explored, "timeline")
    assert charts.seen(chart) == boxed
    assert charts.column(chart, "title") == before


def charts_width(chart) -> float:
    return chart.evaluate(f"(chart) => {{ {charts.VIEW} return view.model.inner_width; }}")


def test_where_bokeh_is_not_to_be_had_the_picture_itself_is_shown(explored):
    explored.evaluate("() => { window.Bokeh = undefined; }")
    image = open_tab(explored, "memory").locator(".image").first
    expect(image.locator("svg")).to_be_visible()
    expect(image.locator(".chart")).to_have_count(0)


def test_what_an_edit_makes_longer_is_seen_whole(explored):
    chart = charts.drawn(open_tab(explored, "timeline"))
    before = charts.seen(chart)[1]
    drag(explored, "batch", "", "data")
    charts.drawn(explored.locator(".tables[data-tab=timeline]"))
    ends = max(charts.column(chart, "right"))
    assert before < ends <= charts.seen(chart)[1]


def test_marks_are_walked_and_chosen_by_keyboard(explored):
    chart = charts.drawn(open_tab(explored, "memory"))
    chart.locator(".plot").focus()
    explored.keyboard.press("ArrowRight")
    explored.keyboard.press("ArrowRight")
    expect(chart.locator(".tasktold")).to_contain_text("in total")
    explored.keyboard.press("Enter")
    expect(explored.locator("th", has_text="live at this moment")).to_be_visible()
    explored.keyboard.press("Enter")
    expect(explored.locator("th", has_text="live at the peak")).to_be_visible()


def test_a_picture_goes_over_the_window_and_escape_brings_it_back(explored):
    tables = open_tab(explored, "memory")
    chart = charts.drawn(tables)
    before = chart.locator(".plot").bounding_box()["height"]
    button = tables.locator(".picture .widen").first
    button.click()
    dialog = explored.locator("dialog.wide")
    expect(dialog).to_be_visible()
    charts.wait_until_still(explored)
    assert chart.locator(".plot").bounding_box()["height"] > 2 * before
    assert findings_in_both(explored) == {}
    explored.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()
    assert chart.locator(".plot").bounding_box()["height"] == pytest.approx(before, abs=2)
