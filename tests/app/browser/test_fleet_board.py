"""The board of a fleet on the page: what a person changes, sees refused, runs, stops, and takes away."""

import pytest
from playwright.sync_api import Page, expect

from tests.app.browser.test_accessibility import findings, findings_in_both, set_theme
from tests.support import charts
from tests.support.fleets import ToldRunner, Training, three_models, times_of
from tests.support.servers import free_port, wait_for
from workbench.app.page import fleet_page as fleet_app
from workbench.app.page.serve import listen
from workbench.multimodel.fleet_forecast import forecast
from workbench.multimodel.training_events import CommandDone, RemoveDevice, StopModel
from workbench.reports.run_events import Failed
from workbench.widgets.fleet.fleet_board import FleetView


@pytest.fixture(scope="module")
def fleet():
    return three_models(memory=12 * 1024)


@pytest.fixture(scope="module")
def times(fleet):
    return times_of(forecast(fleet))


@pytest.fixture(scope="module")
def served():
    """The address, and the view that its next page shows."""
    views: list[FleetView] = []
    port = free_port()
    running = listen(
        lambda: fleet_app.fleet_page(views[-1]), port, open_browser=False, address="127.0.0.1", origins=(), unix_socket=None, threaded=True
    )
    wait_for(f"http://127.0.0.1:{port}/liveness")
    yield f"http://127.0.0.1:{port}/", views
    running.stop()


@pytest.fixture
def runner() -> ToldRunner:
    return ToldRunner()


@pytest.fixture
def view(served, fleet, times, runner) -> FleetView:
    served[1].append(FleetView(fleet, runner, times, path="grid.toml"))
    return served[1][-1]


@pytest.fixture
def board(guarded, served, view) -> Page:
    return opened(guarded, served)


def opened(page: Page, served) -> Page:
    page.goto(served[0])
    charts.drawn(page.locator(".fleettimeline"))
    return page


def settled(page: Page) -> None:
    expect(page.locator(".wb.fleet")).to_have_attribute("data-busy", "false")


def figure(page: Page, key: str) -> str:
    return page.locator(f'[data-figure="{key}"] .value').inner_text()


def started(page: Page, runner: ToldRunner, view: FleetView) -> Training:
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("button", name="Cancel the run")).to_be_visible()
    training = Training(runner.runs[-1], view.seen)
    training.begin()
    expect(page.get_by_role("button", name="Stop deep")).to_be_visible()
    return training


def test_the_board_lists_models_shards_schedule_and_other_ways(board):
    expect(board.locator("[data-model]")).to_have_count(3)
    expect(board.locator('[data-model="deep"] .shards i')).to_have_count(4)
    for name in ("lower bound", "one at a time", "model parallel", "task parallel", "pipelined"):
        expect(board.locator(".way1 .name", has_text=name)).to_be_visible()
    chart = charts.drawn(board.locator(".fleettimeline"))
    titles = charts.column(chart, "title")
    assert len(titles) > 100
    first = next(place for place, title in enumerate(titles) if "forward of shard 0, mini-batch 1" in title)
    chart.scroll_into_view_if_needed()
    board.mouse.move(*charts.place(chart, first))
    expect(board.locator(".bk-tooltip, .bk-Tooltip")).to_contain_text("mini-batch 1")
    model = titles[first].split(": ")[1].split(",")[0]
    outstanding = charts.selected(chart, "title")
    assert {f": {model}, " in title or f"state of {model} " in title for title in outstanding} == {True}
    assert len(outstanding) < len(titles)
    assert findings(board) == []


def test_the_schedule_is_read_as_text_and_saved_once_it_is_asked_for(board):
    timeline = board.locator(".fleettimeline")
    timeline.get_by_text("As text").click()
    expect(timeline.locator("pre")).to_contain_text("Shard units of 3 models")
    expect(timeline.locator("pre")).to_contain_text("0 to")
    with board.expect_download() as saved:
        timeline.get_by_label("Save the picture as SVG").click()
    assert saved.value.suggested_filename == "fleet-timeline.svg"


def test_policy_budget_and_devices_change_the_schedule_at_once(board, view):
    before = figure(board, "makespan")
    board.locator("[data-control=policy] .open").click()
    board.get_by_role("menuitem", name="first-in-list").click()
    settled(board)
    expect(board.locator("[data-control=policy] .open")).to_contain_text("first-in-list")
    board.get_by_role("button", name="One device less").click()
    expect(board.locator('[data-figure="makespan"] .value')).not_to_have_text(before)
    expect(board.locator('[data-figure="makespan"] .delta')).to_be_visible()
    board.get_by_role("button", name="Twice the budget").click()
    expect(board.locator('[data-model="deep"] .shards i')).to_have_count(len(view.seen.models[2].shards))
    settled(board)
    assert view.seen.devices == 1
    assert view.fleet.policy == "first-in-list"


def test_a_budget_too_small_is_said_and_nothing_is_lost(board, view):
    before = figure(board, "makespan")
    field = board.get_by_label("memory budget per device")
    field.fill("2 KiB")
    field.press("Enter")
    expect(board.locator(".refusal")).to_contain_text("alone takes")
    expect(board.locator(".refusal")).to_contain_text("raise the memory budget")
    expect(field).to_have_value("2 KiB")
    assert figure(board, "makespan") == before
    assert findings(board) == []
    board.get_by_role("button", name="Dismiss").click()
    expect(field).to_have_value("12.0 KiB")
    expect(board.locator(".refusal")).to_have_count(0)


def test_a_run_grows_beneath_the_prediction_and_a_model_is_stopped(board, view, runner):
    training = started(board, runner, view)
    training.units(30)
    expect(board.locator(".fleettimeline .key")).to_contain_text("current forecast")
    titles = charts.column(charts.drawn(board.locator(".fleettimeline")), "title")
    assert any("\nmeasured from" in title for title in titles)
    assert any("\ncurrent forecast from" in title for title in titles)
    expect(board.locator('[data-model="deep"] .word')).to_have_text("running")
    assert board.get_by_label("devices", exact=True).is_disabled()
    board.get_by_role("button", name="Take away 1").click()
    board.get_by_role("button", name="Stop deep").click()
    settled(board)
    assert runner.runs[-1].commands == [RemoveDevice(1), StopModel("deep")]
    training.handle.tell(CommandDone(RemoveDevice(1)))
    expect(board.get_by_role("button", name="Give back 1")).to_be_visible()
    training.stopped("deep")
    training.units()
    training.done()
    expect(board.locator('[data-model="deep"] .word')).to_have_text("stopped")
    expect(board.locator('[data-model="a"] .word')).to_have_text("finished")
    expect(board.locator(".lossline")).to_have_count(3)
    expect(board.locator('[data-figure="makespan"] .tier')).to_contain_text("measured")
    expect(board.locator('[data-way="measured"]')).to_be_visible()
    assert findings(board) == []


def test_a_second_visitor_sees_the_same_run_and_it_outlives_a_reload(board, served, view, runner, context):
    training = started(board, runner, view)
    training.units(10)
    other = opened(context.new_page(), served)
    expect(other.locator('[data-model="deep"] .word')).to_have_text("running")
    board.reload()
    expect(board.get_by_role("button", name="Cancel the run")).to_be_visible()
    other.get_by_role("button", name="Cancel the run").click()
    settled(other)
    assert runner.runs[-1].cancels == 1
    training.handle.tell(Failed("The system killed the training of 3 models while training."))
    for page in (board, other):
        expect(page.locator(".message")).to_contain_text("The system killed")
        expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()


def test_it_fits_a_narrow_window_in_both_themes(guarded, served, view):
    guarded.set_viewport_size({"width": 560, "height": 900})
    page = opened(guarded, served)
    for theme in ("light", "dark"):
        set_theme(page, theme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 560
    assert findings_in_both(page) == {}
