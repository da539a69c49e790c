"""The views on the page: each opens, graph and memory open further, tables sort, pictures become files; by pointer and by keyboard."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.app.browser.conftest import open_board
from tests.support import charts
from tests.support.choosing import share_of
from tests.support.tabs import open_tab
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.visualize.draw.collapse_scopes import collapse

PICTURES = {
    "devices": "params/",
    "communication": "each device sends",
    "memory": "what one device holds over the step",
    "step": "one step, ",
    "timeline": "one step of one device",
    "graph": "kernels of the step in",
}


@pytest.fixture(scope="module")
def planned() -> Plan:
    hardware = parse_hardware("TPU v5e 2x4")
    return Plan(build("gpt", scan=True), "data:4 model:2", "batch:data; d_ff:model; heads:model", hardware=hardware)


@pytest.fixture
def views(guarded, server, stage, planned):
    """The page of a small GPT on eight TPUs."""
    stage.make = lambda: planned
    page = open_board(guarded, server)
    expect(page.locator(".wb[data-settling=false]")).to_be_visible(timeout=60_000)  # figures that settle draw tables and pictures anew
    return page


def column(table: Locator, place: int) -> list[str]:
    return table.locator(f"tbody tr td:nth-child({place})").all_inner_texts()


def test_each_view_opens_with_a_picture_its_text_and_three_ways_to_take_it_away(views, pytestconfig):
    for tab, shows in share_of(pytestconfig, [*PICTURES.items()], 3):
        tables = open_tab(views, tab)
        expect(tables.locator(".image").first, tab).to_have_attribute("aria-label", re.compile(re.escape(shows)))
        tables.locator("summary").first.click()
        expect(tables.locator("pre").first, tab).to_contain_text(shows)
        assert tables.locator(".picture").first.locator("[data-save]").all_inner_texts() == ["SVG", "PNG", "text"], tab


def test_a_picture_becomes_a_file(views):
    tables = open_tab(views, "step")
    for kind, ending, begins in (("SVG", "svg", b"<svg"), ("PNG", "png", b"\x89PNG"), ("text", "txt", b"gpt")):
        with views.expect_download() as saved:
            tables.locator(f"[data-save={kind}]").first.click()
        assert saved.value.suggested_filename == f"step-time.{ending}"
        assert Path(saved.value.path()).read_bytes().startswith(begins), kind


@pytest.fixture(scope="module")
def closed(planned) -> str:
    """A scope of the graph that is closed at first."""
    return next(box.key for box in collapse(planned.report().graph).boxes if box.can_open)


def test_a_scope_of_the_graph_opens_by_a_click_and_closes_by_another(views, closed):
    image = open_tab(views, "graph").locator(".image")
    scope, before = image.locator(f'[data-opens="{closed}"]'), image.locator("svg").get_attribute("aria-label")
    scope.click()
    expect(scope.locator("title")).to_have_text(f"{closed}: close it")
    assert image.locator("svg").get_attribute("aria-label") != before
    scope.click()
    expect(image.locator("svg")).to_have_attribute("aria-label", before)


def test_the_graph_is_walked_and_opened_by_keyboard(views, closed):
    image = open_tab(views, "graph").locator(".image")
    image.focus()
    for _ in range(60):
        views.keyboard.press("ArrowRight")
        if image.locator(".at").get_attribute("data-opens") == closed:
            break
    views.keyboard.press("Enter")
    expect(image.locator(f'[data-opens="{closed}"] title')).to_have_text(f"{closed}: close it")
    expect(image).to_be_focused()


def test_a_moment_of_the_step_shows_what_is_alive_there(views):
    tables = open_tab(views, "memory")
    chart = charts.drawn(tables)
    for says in ("live at this moment", "live at the peak"):
        charts.click_for(chart, 3, tables.locator("th", has_text=says))
        expect(tables.locator("th", has_text=says)).to_be_visible()


def test_what_is_selected_in_a_picture_is_marked_in_the_next_view_and_shown_on_the_devices(views):
    tables = open_tab(views, "memory")
    tables.locator('.image [data-subject="params/layers/mlp/w1"]').click()
    expect(tables.locator('tr.chosen[data-subject="params/layers/mlp/w1"]')).to_have_count(1)
    devices = open_tab(views, "devices")
    expect(devices.locator(".image svg")).to_have_attribute("aria-label", re.compile(r"params/layers/mlp/w1"))


def test_a_table_is_sorted_by_keyboard_one_way_then_the_other_then_as_it_was(views):
    table = open_tab(views, "kernels").locator("table").last
    as_told = column(table, 1)
    head = table.locator("th", has_text="kernel")
    head.locator("button.sorter").focus()
    views.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert column(table, 1) == sorted(as_told, key=str.casefold) != as_told
    expect(head.locator("button.sorter")).to_be_focused()
    views.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "descending")
    views.keyboard.press("Enter")
    expect(head).not_to_have_attribute("aria-sort", re.compile("."))
    assert column(table, 1) == as_told


def test_numbers_are_sorted_by_what_they_stand_for(views):
    table = open_tab(views, "kernels").locator("table").last
    place = table.locator("th").all_inner_texts().index("bytes") + 1
    table.locator(f"th:nth-child({place}) .sorter").click()
    scale = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
    counts = [float(number) * scale[unit] for number, unit in (text.split() for text in column(table, place))]
    assert counts == sorted(counts, reverse=True)
    assert len({text.split()[1] for text in column(table, place)}) > 1


def test_text_in_pictures_stands_out_from_the_ground_in_both_themes(views):
    tables = open_tab(views, "graph")
    for scheme in ("dark", "light"):
        views.emulate_media(color_scheme=scheme)
        views.locator(f".wb[data-theme={scheme}]").wait_for()
        colour = tables.locator(".image text").first.evaluate("text => getComputedStyle(text).fill")
        red = int(re.findall(r"\d+", colour)[0])
        assert red < 60 if scheme == "light" else red > 200
