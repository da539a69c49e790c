"""Pipelines on the page: make one, drag a boundary by mouse and by key, balance, choose a schedule, run, and read the timeline."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.browser.conftest import open_board
from tests.app.browser.test_accessibility import AUDIT, findings, findings_in_both
from tests.app.browser.test_page import centre, settled
from tests.support import charts
from tests.support.machines import flat
from tests.support.scripted import ScriptedRunner
from tests.support.stack import stack_program
from tests.support.tabs import open_tab
from workbench.app.runners.worker_runner import WorkerRunner
from workbench.public_plan import Plan

SLOW = flat("slow", flops=1e7, memory_bandwidth=1e8, devices=2)


@pytest.fixture(scope="module")
def network():
    """Six layers and a loss."""
    return stack_program()


@pytest.fixture
def pipeline(guarded, server, stage, network):
    """The tab, over two stages."""
    stage.make = lambda: Plan(network, "stage:2", "", pipeline="stages:2 micro_batches:4", hardware=SLOW)
    return opened(guarded, server)


def opened(page: Page, server) -> Page:
    open_board(page, server)
    open_tab(page, "pipeline")
    settled(page)
    page.locator(".pipeline[data-kind]").wait_for()
    return page


def figure(page: Page, key: str) -> str:
    return page.locator(f'[data-stagefigure="{key}"] .value').inner_text()


def boundary(page: Page, piece: int = 1):
    return page.locator(f'.boundary[data-piece="{piece}"]')


def blocks(page: Page, stage: int) -> list[str]:
    return page.locator(f'.column[data-stage="{stage}"] [data-block]').evaluate_all("all => all.map((each) => each.dataset.block)")


def charted(page: Page) -> None:
    """The tables are those of the last answer."""
    settled(page)
    root = page.locator(".wb")
    while root.get_attribute("data-charted") != root.get_attribute("data-answered"):
        page.wait_for_timeout(20)


def choose(page: Page, choice: str, control: str = "schedule") -> None:
    page.locator(f"[data-control={control}] .open").click()
    page.get_by_role("menuitem", name=re.compile(f"^{choice}")).click()
    settled(page)


def test_one_button_makes_a_pipeline_and_another_takes_it_away(guarded, server, stage, network):
    stage.make = lambda: Plan(network, "data:4", "batch:data")
    page = opened(guarded, server)
    assert findings(page) == []
    page.get_by_role("button", name="Make a pipeline of 2 stages").click()
    expect(page.locator(".column")).to_have_count(2)
    expect(page.locator(".mesh")).to_have_text("stage:2 × data:2")
    page.get_by_role("button", name="Remove pipeline").click()
    expect(page.locator(".invitation")).to_be_visible()
    expect(page.locator(".stageboard")).to_be_hidden()


def test_a_boundary_is_dragged_and_everything_moves_with_it_before_it_is_let_go(pipeline):
    step, before = figure(pipeline, "step"), blocks(pipeline, 0)
    boundary(pipeline).scroll_into_view_if_needed()
    x, y = centre(boundary(pipeline))
    pipeline.mouse.move(x, y)
    pipeline.mouse.down()
    pipeline.mouse.move(x, y - 100)  # at once: each place on the way would be tried, and the last table may be of one of these
    expect(pipeline.locator("[data-stagefigure=step] .value")).not_to_have_text(step)
    assert len(blocks(pipeline, 0)) < len(before)
    charted(pipeline)
    tried = figure(pipeline, "step")
    expect(pipeline.locator("[data-verb=undo]")).to_be_disabled()
    pipeline.mouse.up()
    expect(pipeline.locator("[data-verb=undo]")).to_have_attribute("title", f"Undo stage 1 begins at {blocks(pipeline, 1)[0]}")
    settled(pipeline)
    expect(pipeline.locator("[data-stagefigure=step] .value")).to_have_text(tried)
    assert [*blocks(pipeline, 0), *blocks(pipeline, 1)][: len(before)] == before


def test_a_boundary_that_is_let_go_at_once_does_not_jump(pipeline):
    """What was tried on the way is answered after the hand has let go, and must not be painted then."""
    boundary(pipeline).scroll_into_view_if_needed()
    x, y = centre(boundary(pipeline))
    pipeline.locator(".columns").evaluate("""(columns) => {
        const first = () => columns.querySelector('.column[data-stage="1"] [data-block]').dataset.block;
        window.begins = [first()];
        const note = () => { if (first() !== window.begins.at(-1)) window.begins.push(first()); };
        new MutationObserver(note).observe(columns, { childList: true, subtree: true });
    }""")
    pipeline.mouse.move(x, y)
    pipeline.mouse.down()
    pipeline.mouse.move(x, y - 100, steps=5)
    pipeline.mouse.up()
    expect(pipeline.locator("[data-verb=undo]")).to_have_attribute("title", f"Undo stage 1 begins at {blocks(pipeline, 1)[0]}")
    charted(pipeline)
    begins = pipeline.evaluate("window.begins")
    assert begins == sorted(begins, reverse=True), begins  # only upwards, as the hand went
    assert begins[-1] == blocks(pipeline, 1)[0]


def test_a_drag_that_is_given_up_leaves_everything_as_it_was(pipeline):
    step, before = figure(pipeline, "step"), blocks(pipeline, 0)
    boundary(pipeline).scroll_into_view_if_needed()
    x, y = centre(boundary(pipeline))
    pipeline.mouse.move(x, y)
    pipeline.mouse.down()
    pipeline.mouse.move(x, y - 100, steps=5)
    expect(pipeline.locator("[data-stagefigure=step] .value")).not_to_have_text(step)
    pipeline.keyboard.press("Escape")
    pipeline.mouse.up()
    expect(pipeline.locator("[data-stagefigure=step] .value")).to_have_text(step)
    assert blocks(pipeline, 0) == before
    expect(pipeline.locator("[data-verb=undo]")).to_be_disabled()


def test_a_boundary_moves_by_key_says_where_it_is_and_keeps_the_focus(pipeline):
    before = len(blocks(pipeline, 0))
    boundary(pipeline).focus()
    pipeline.keyboard.press("ArrowUp")
    pipeline.keyboard.press("ArrowUp")
    settled(pipeline)
    assert len(blocks(pipeline, 0)) == before - 2
    expect(boundary(pipeline)).to_be_focused()
    expect(boundary(pipeline)).to_have_attribute("aria-valuetext", f"stage 1 begins at {blocks(pipeline, 1)[0]}")
    expect(pipeline.locator("[role=status].sr")).to_have_text(f"stage 1 begins at {blocks(pipeline, 1)[0]}")
    pipeline.locator("[data-balance=time]").click()
    settled(pipeline)
    expect(pipeline.locator("[data-balance=time]")).to_have_attribute("aria-pressed", "true")
    assert len(blocks(pipeline, 0)) == before


def test_schedule_micro_batches_and_recomputation_change_the_figures(pipeline):
    bubble = figure(pipeline, "bubble")
    slider = pipeline.locator("[data-control=micro_batches] input")
    slider.focus()
    pipeline.keyboard.press("ArrowRight")
    expect(pipeline.locator("[data-control=micro_batches] output")).to_have_text("8")
    expect(pipeline.locator("[data-stagefigure=bubble] .value")).not_to_have_text(bubble)
    bubble = figure(pipeline, "bubble")
    choose(pipeline, "interleaved")
    expect(pipeline.locator("[data-control=chunks]")).to_be_visible()
    expect(pipeline.locator("[data-stagefigure=bubble] .value")).not_to_have_text(bubble)
    peak = figure(pipeline, "peak")
    choose(pipeline, "never", "remat")
    expect(pipeline.locator("[data-stagefigure=peak] .value")).not_to_have_text(peak)


def test_more_stages_than_blocks_are_refused_under_the_field_with_a_way_out(pipeline):
    field = pipeline.locator("[data-control=stages] input")
    field.fill("40")
    field.press("Enter")
    refusal = pipeline.locator(".refusedhere .refusal")
    expect(refusal).to_contain_text("40 stages need as many")
    expect(refusal).to_contain_text("make stages 7")
    expect(pipeline.locator(".column")).to_have_count(2)
    assert findings(pipeline) == []
    refusal.get_by_label("Dismiss").click()
    expect(refusal).to_have_count(0)


def gantt(page: Page):
    """The chart of the step over time."""
    return charts.drawn(page.locator('.picture[data-picture="pipeline timeline"]'))


def titles(page: Page, *parts: str) -> list[int]:
    """The tasks in the chart whose titles have all these parts."""
    return [place for place, title in enumerate(charts.column(gantt(page), "title")) if all(part in title for part in parts)]


def test_the_timeline_tells_of_a_task_dims_other_micro_batches_zooms_and_is_walked_by_key(pipeline):
    chart = gantt(pipeline)
    assert len(titles(pipeline, "predicted")) == 2 * 2 * 4 + 2  # two updates
    (first,) = titles(pipeline, "stage 0 ·", "forward of micro-batch 0\npredicted from 0.00 µs")
    chart.scroll_into_view_if_needed()
    pipeline.mouse.move(*charts.place(chart, first))
    tip = pipeline.locator(".bk-tooltip, .bk-Tooltip")
    expect(tip).to_contain_text("forward of micro-batch 0")
    assert {re.search(r"micro-batch (\d)", title)[1] for title in charts.selected(chart, "title")} == {"0"}
    pipeline.mouse.move(0, 0)
    assert charts.selected(chart, "title") == set()
    whole = charts.seen(chart)
    chart.locator(".plot").focus()
    for key in ("+", "+", "d"):
        pipeline.keyboard.press(key)
    assert whole[0] < charts.seen(chart)[0] < charts.seen(chart)[1] < whole[1]
    pipeline.keyboard.press("0")
    assert charts.seen(chart) == whole
    pipeline.keyboard.press("ArrowRight")
    pipeline.keyboard.press("ArrowDown")
    expect(chart.locator(".tasktold")).to_contain_text("stage 1")
    assert charts.selected(chart, "title")
    pipeline.keyboard.press("Escape")
    expect(chart.locator(".tasktold")).to_be_empty()
    assert charts.selected(chart, "title") == set()


def test_keys_walk_though_the_pointer_rests_on_the_chart(pipeline):
    chart = gantt(pipeline)
    chart.scroll_into_view_if_needed()
    (first,) = titles(pipeline, "stage 0 ·", "forward of micro-batch 0\npredicted from 0.00 µs")
    charts.click(chart, first)
    chart.locator(".plot").focus()
    for _ in range(2):
        pipeline.keyboard.press("ArrowRight")
    expect(chart.locator(".tasktold")).to_contain_text("forward of micro-batch 1")
    charts.wait_until_still(pipeline)
    assert {re.search(r"micro-batch (\d)", title)[1] for title in charts.selected(chart, "title")} == {"1"}


def test_walking_by_key_brings_what_is_out_of_sight_into_it(pipeline):
    chart = gantt(pipeline)
    chart.locator(".plot").focus()
    for _ in range(5):
        pipeline.keyboard.press("+")
    before = charts.seen(chart)
    for _ in range(9):  # eight tasks and the update
        pipeline.keyboard.press("ArrowRight")
    expect(chart.locator(".tasktold")).to_contain_text("stage 0")
    expect(chart.locator(".tasktold")).to_contain_text("update")
    after = charts.seen(chart)
    assert after[0] > before[0]
    assert after[1] - after[0] == pytest.approx(before[1] - before[0])


def test_measured_tasks_are_drawn_under_the_predicted_ones(pipeline, stage):
    stage.runner = ScriptedRunner()
    pipeline.get_by_role("button", name="Run", exact=True).click()
    expect(pipeline.locator(".tables .note", has_text="Measured")).to_contain_text("1.23× of it")  # a quarter longer, without an update
    assert len(titles(pipeline, "\nmeasured from")) == 2 * 2 * 4
    assert len(titles(pipeline, "measured is 1.25× of the prediction")) == 2 * 2 * 2 * 4
    box = pipeline.get_by_label("measured to its own scale")
    expect(box).not_to_be_checked()
    whole = charts.seen(gantt(pipeline))
    box.check()
    assert charts.seen(gantt(pipeline))[1] < whole[1]
    box.uncheck()
    assert charts.seen(gantt(pipeline)) == whole


def test_with_more_stages_a_zoomed_chart_shows_the_lanes_of_all(pipeline):
    chart = gantt(pipeline)
    chart.locator(".plot").focus()
    pipeline.keyboard.press("+")
    field = pipeline.locator("[data-control=stages] input")
    field.fill("3")
    field.press("Enter")
    expect(pipeline.locator(".column")).to_have_count(3)
    assert titles(pipeline, "stage 2 ·")
    low, high = gantt(pipeline).evaluate(f"(chart) => {{ {charts.VIEW} return [named('y').end, named('y').start]; }}")
    assert low == 0
    assert max(charts.column(gantt(pipeline), "bottom")) < high


@AUDIT
def test_the_board_with_chunks_skips_and_measured_tasks_can_be_used_by_everyone(guarded, server, stage, network):
    stage.make = lambda: Plan(network, "stage:2", "", pipeline="stages:2 micro_batches:4 schedule:interleaved chunks:2")
    stage.runner = ScriptedRunner()
    page = opened(guarded, server)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".tables .note", has_text="Measured")).to_be_visible()
    assert titles(page, "measured from")
    assert findings_in_both(page) == {}
    page.locator("[data-control=schedule] .open").click()
    assert findings_in_both(page) == {}, "the schedules"


def test_a_pipeline_runs_live_and_its_tasks_are_measured(guarded, server, stage, network):
    stage.make = lambda: Plan(network, "stage:2", "", pipeline="stages:2 micro_batches:4")
    stage.runner = WorkerRunner()
    pipeline = opened(guarded, server)
    pipeline.locator(".column").first.wait_for()
    pipeline.get_by_label("steps to run").fill("2")
    pipeline.get_by_role("button", name="Run", exact=True).click()
    pipeline.locator(".run[data-phase=done]").wait_for(timeout=120_000)
    expect(pipeline.locator(".run .curve").first).to_be_visible()
    expect(pipeline.locator(".tables .note", has_text="Measured")).to_contain_text("Bubble measured")
    assert len(titles(pipeline, "\nmeasured from")) >= 2 * 2  # narrow ones that touch are one block
