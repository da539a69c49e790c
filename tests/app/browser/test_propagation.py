"""Annotate, propagate, explain on the page: by menu and by keyboard, step by step, and by the edits that a conflict suggests."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.app.browser.conftest import open_board
from tests.app.browser.test_page import settled
from tests.app.browser.test_tensors import chip, layout
from tests.support.tabs import open_tab
from workbench.core.program import Program
from workbench.models import build
from workbench.public_plan import Plan

CONTESTED = "batch:data p1; w=[-, data]; hidden:model"


@pytest.fixture(scope="module")
def even() -> Program:
    """Two layers with 32 rows of `hidden`, which every axis divides."""
    return build("two_layer", batch=16, io=64, hidden=32)


@pytest.fixture
def spreading(guarded, server, stage, even):
    """The page of a plan whose statements meet."""
    stage.make = lambda: Plan(even, "data:4 model:2", CONTESTED)
    return open_board(guarded, server)


def slider(page: Page) -> Locator:
    return page.get_by_role("slider", name="Step of the propagation")


def test_the_menu_of_a_value_annotates_it_and_its_tags_take_that_back(spreading):
    open_tab(spreading, "values")
    row = spreading.locator('tr[data-subject="first/relu/max"]')
    chip(spreading, "first/relu/max", 0).locator("b").click()
    menu = spreading.get_by_role("menu")
    expect(menu.get_by_role("menuitemradio", name="both ways")).to_have_attribute("aria-checked", "true")
    menu.get_by_role("menuitemradio", name="forward").click()
    expect(layout(spreading)).to_contain_text("barrier[@first/relu/max] allows:forward")
    expect(row.locator(".own")).to_contain_text("forward only")
    row.locator(".own").click()
    expect(layout(spreading)).not_to_contain_text("barrier")
    chip(spreading, "first/relu/max", 0).locator("b").click()
    menu.get_by_role("menuitem", name="Group with another").click()
    spreading.get_by_label("Same sharding as").fill("grad/first/select_n")
    spreading.keyboard.press("Enter")
    expect(row.locator(".own")).to_contain_text("tied")


def test_a_tensor_is_opened_and_made_late_by_keyboard(spreading):
    open_tab(spreading, "tensors").locator('tr[data-subject="w"]').focus()
    for key in ("ArrowRight", "ArrowRight", "m"):
        spreading.keyboard.press(key)
    spreading.get_by_role("menu").wait_for()
    offer = spreading.get_by_role("menuitem", name="Allow further axes on hidden: data?")
    for _ in range(30):
        if offer.evaluate("e => e === e.getRootNode().activeElement"):
            break
        spreading.keyboard.press("ArrowDown")
    spreading.keyboard.press("Enter")
    expect(layout(spreading)).to_contain_text("w=[-, data?]")
    expect(chip(spreading, "w", 1).locator(".set")).to_have_text("?")
    expect(chip(spreading, "w", 1)).to_be_focused()


def test_the_round_of_a_rule_is_chosen_on_the_board(spreading):
    spreading.locator('.zone[data-axis="data"] .chip').click(button="right")
    spreading.get_by_role("menuitemradio", name="0", exact=True).click()
    expect(layout(spreading)).to_have_text("batch:data; hidden:model; w=[-, data]")
    expect(spreading.locator(".board .set")).to_have_count(0)


def test_a_click_on_the_mark_of_an_axis_explains_it_and_applies_an_edit_that_turns_it(spreading):
    open_tab(spreading, "values")
    chip(spreading, "first/dot_general", 1).locator(".on").click()
    why = spreading.locator(".whypanel")
    expect(why.locator("h2")).to_have_text("Why is hidden of first/dot_general on data?")
    expect(why).to_contain_text("w=[-, data] on w")
    expect(why).to_contain_text("priority 0 precedes 1")
    why.get_by_role("button", name="@/first/dot_general → [data, ?]").click()
    expect(layout(spreading)).to_contain_text("@/first/dot_general=[data, ?]")


def test_the_replay_is_walked_by_keys_and_shows_only_what_has_an_axis_so_far(spreading):
    tables = open_tab(spreading, "propagation")
    slider(spreading).focus()
    rows = tables.locator("tbody").first.locator("tr")
    expect(rows).to_have_count(3)
    expect(tables.locator(".did")).to_contain_text("By hand, before the first step")
    spreading.keyboard.press("ArrowRight")
    expect(tables.locator(".count")).to_have_text("step 1 of 11")
    expect(tables.locator(".did")).to_contain_text(re.compile(r"forward\s*data from hidden of w to hidden of first/dot_general"))
    expect(rows).to_have_count(4)
    expect(rows.first).to_have_class(re.compile("fresh"))
    expect(tables.locator(".image svg")).to_have_attribute("aria-label", re.compile("4 of 8 kernels, inputs and parameters have an axis"))
    expect(slider(spreading)).to_have_attribute("aria-valuetext", re.compile("step 1 of 11, forward: data from hidden of w"))
    spreading.keyboard.press("End")
    expect(tables.locator(".count")).to_have_text("step 11 of 11")
    expect(rows.first).to_contain_text("11")
    expect(slider(spreading)).to_be_focused()


def test_play_goes_on_by_itself_and_not_where_motion_is_reduced(spreading):
    tables = open_tab(spreading, "propagation")
    tables.get_by_role("button", name="Play to the end").click()
    expect(tables.locator(".count")).to_have_text("step 11 of 11")
    settled(spreading)
    spreading.emulate_media(reduced_motion="no-preference")
    tables.get_by_role("button", name="Step back").click()
    tables.get_by_role("button", name="Step back").click()
    tables.get_by_role("button", name="Play").click()
    expect(tables.get_by_role("button", name="Pause")).to_be_visible()
    expect(tables.locator(".count")).to_have_text("step 11 of 11")
    expect(tables.get_by_role("button", name="Play")).to_be_visible()


def test_an_edit_of_a_conflict_decides_it_the_other_way(spreading):
    tables = open_tab(spreading, "propagation")
    first = tables.locator("tbody tr", has_text="batch:data p1 on x, priority 1").first
    expect(first).to_contain_text("priority 0 precedes 1")
    settled(spreading)
    first.get_by_role("button", name="w → by the rules").click()
    expect(layout(spreading)).to_have_text("batch:data p1; hidden:model")
    expect(tables.locator(".block", has_text="Conflicts").last).not_to_contain_text("priority 0 precedes 1")


def test_the_fewest_statements_are_found_and_become_the_layout(spreading, stage, server, even):
    stage.make = lambda: Plan(even, "data:4 model:2", "batch:data; w=[-, model]; v=[model, -]")
    open_board(spreading, server)
    tables = open_tab(spreading, "propagation")
    tables.get_by_role("button", name="Find a minimal layout").click()
    tables.get_by_role("button", name="Make these 2 the layout").click()
    expect(layout(spreading)).to_have_text("batch:data; hidden:model")
    spreading.locator("[data-verb=undo]").click()
    expect(layout(spreading)).to_contain_text("w=[-, model]")


def test_a_box_of_the_graph_leads_to_the_chips_of_its_value(spreading):
    tables = open_tab(spreading, "graph")
    expect(tables).to_contain_text("Click a box to annotate its value here")
    tables.locator('.image [data-subject="second/dot_general"]').first.click()
    chip(spreading, "second/dot_general", 1).locator("b").click()
    spreading.get_by_role("menuitem", name="Put io on model").click()
    expect(layout(spreading)).to_contain_text("@/second/dot_general=[?, model]")


def test_a_box_carries_the_menu_of_its_value_and_partial_sums_are_a_choice_there(spreading, stage, server, even):
    stage.make = lambda: Plan(even, "data:4 model:2", "batch:data; hidden:model")
    open_board(spreading, server)
    tables, menu = open_tab(spreading, "propagation"), spreading.get_by_role("menu")
    box = tables.locator('.image [data-subject="second/dot_general"]').first
    box.click()
    expect(menu).to_contain_text("Constrain second/dot_general, two_layer.py:")
    expect(box).to_have_class(re.compile("chosen"))
    menu.get_by_role("group", name="Partial sum over").get_by_role("menuitemcheckbox", name="model").click()
    expect(layout(spreading)).to_have_text("batch:data; hidden:model; @/second/dot_general=[data, -] unreduced:model")
    box.click()
    menu.get_by_role("group", name="io 64").get_by_role("menuitemradio", name="model", exact=True).click()
    expect(layout(spreading)).to_have_text("batch:data; hidden:model; @/second/dot_general=[data, model]")


def test_a_sum_that_is_none_is_refused_in_words_beside_the_graph(spreading):
    tables = open_tab(spreading, "graph")
    tables.locator('.image [data-subject="first/dot_general"]').first.click()
    spreading.get_by_role("group", name="Partial sum over").get_by_role("menuitemcheckbox", name="model").click()
    expect(tables.get_by_role("alert")).to_contain_text("is not a partial sum over mesh axis model")
    expect(layout(spreading)).to_have_text(CONTESTED.replace("; hidden:model", "").replace("; w", "; hidden:model; w"))


def test_a_result_is_annotated_as_a_row_of_the_tensors(spreading):
    row = open_tab(spreading, "tensors").locator('tr[data-subject="result/y"]')
    chip(spreading, "result/y", 1).locator("b").click()
    expect(spreading.get_by_role("menu")).to_contain_text("Annotate this result")
    spreading.get_by_role("menuitem", name="Put io on model").last.click()
    expect(layout(spreading)).to_contain_text("result/y=[?, model]")
    row.locator(".own").click()
    expect(layout(spreading)).not_to_contain_text("result/y")


def test_a_source_line_is_picked_with_a_click(spreading):
    open_tab(spreading, "values")
    spreading.locator('tr[data-subject="second/dot_general"] .linepick').click()
    menu = spreading.get_by_role("menu")
    expect(menu).to_contain_text("Constrain line two_layer.py:")
    menu.get_by_role("group", name="batch 16").get_by_role("menuitemradio", name="data", exact=True).click()
    expect(layout(spreading)).to_contain_text(re.compile(r"@two_layer\.py:\d+=\[data, \?\]"))
    expect(spreading.locator('tr[data-subject="second/dot_general"] .linepick')).to_be_focused()


def test_the_graph_fits_and_each_step_of_the_replay_is_in_sight(spreading, stage, server):
    small = build("gpt", layers=1, seq=16, batch=8, scan=True)
    stage.make = lambda: Plan(small, "data:4 model:2", "batch:data; d_ff:model")
    open_board(spreading, server)
    tables = open_tab(spreading, "propagation")
    image = tables.locator(".image")
    expect(image.locator("svg")).to_be_visible()
    for width in (1280, 560):
        spreading.set_viewport_size({"width": width, "height": 900})
        assert image.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    assert image.evaluate("e => e.scrollHeight > e.clientHeight")  # so that following it is something
    seen = 0
    for _ in range(8):
        tables.get_by_role("button", name="Step forward").click()
        settled(spreading)
        spreading.wait_for_timeout(60)
        inside = image.evaluate(ARRIVED_IN_SIGHT)
        assert inside is not False
        seen += inside is True
    assert seen > 4


ARRIVED_IN_SIGHT = """image => {
  const title = [...image.querySelectorAll("title")].find((each) => each.textContent.startsWith("→ "));
  if (!title) return null;
  const box = title.parentElement.getBoundingClientRect(), frame = image.getBoundingClientRect();
  return box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
}"""


def test_a_plan_without_statements_says_how_to_begin(spreading, stage, server, even):
    stage.make = lambda: Plan(even, "data:4 model:2", "")
    open_board(spreading, server)
    tables = open_tab(spreading, "propagation")
    expect(tables).to_contain_text("The layout is empty")
    tables.locator('.image [data-subject="x"]').click()
    spreading.get_by_role("group", name="batch 16").get_by_role("menuitemradio", name="data", exact=True).click()
    expect(layout(spreading)).to_have_text("x=[data, -]")
    expect(tables.locator(".count")).to_have_text(re.compile("step 0 of"))
