"""Recipes and reshardings on the page: opened, read, applied by one click, taken back; and what a keyboard alone can do with them."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.browser.conftest import open_board
from tests.app.browser.test_page import figure
from tests.support.resharding import reproducer
from tests.support.tabs import open_tab, view_tab
from workbench.models import build
from workbench.public_plan import Plan


def recipe(page: Page, name: str):
    return page.locator(f'[data-recipe="{name}"]')


def button(page: Page):
    return page.locator("[data-verb=recipes]")


def opened(page: Page, server, stage, make) -> Page:
    stage.make = make
    return open_board(page, server)


@pytest.fixture
def gpt(guarded, server, stage):
    """The page over a Transformer of one layer, its recipes open."""
    program = build("gpt", layers=1)
    page = opened(guarded, server, stage, lambda: Plan(program, "data:4 model:2", "batch:data"))
    button(page).click()
    recipe(page, "megatron").wait_for()
    return page


@pytest.fixture
def two_lines(guarded, server, stage):
    """The page over two constraints that XLA cannot get between but by gathering the whole value."""
    return opened(guarded, server, stage, reproducer)


def test_a_recipe_is_read_applied_by_one_click_and_taken_back(gpt):
    megatron = recipe(gpt, "megatron")
    expect(megatron).to_contain_text("two all-reduces per layer")
    expect(megatron.locator(".edits")).to_contain_text("d_ff → model")
    expect(megatron.get_by_role("combobox")).to_have_value("model")
    expect(recipe(gpt, "data_parallel")).to_contain_text("✓ applied")
    before = figure(gpt, "memory").locator(".value").inner_text()
    megatron.get_by_role("button", name="Apply").click()
    expect(megatron).to_contain_text("✓ applied")
    expect(gpt.locator(".head .layout")).to_contain_text("d_ff:model")
    expect(figure(gpt, "memory").locator(".delta")).to_contain_text("−")
    expect(gpt.locator("[data-verb=undo]")).to_have_attribute("title", "Undo megatron (3 edits)")
    gpt.locator("[data-verb=undo]").click()
    expect(gpt.locator(".head .layout")).to_have_text("batch:data")
    expect(figure(gpt, "memory").locator(".value")).to_contain_text(re.split(r"\n", before)[0])


def test_one_that_does_not_apply_says_why_and_another_axis_can_be_chosen(gpt):
    experts = recipe(gpt, "expert_parallel")
    expect(experts).to_have_class(re.compile("barred"))
    expect(experts).to_contain_text("no weight of gpt")
    expect(experts).to_contain_text("Try: choose another recipe")
    assert gpt.locator(".recipe .ways").evaluate_all("all => all.every(each => each.scrollWidth <= each.clientWidth)"), "clipped"
    apply = experts.get_by_role("button")
    expect(apply).to_have_attribute("aria-disabled", "true")
    apply.click(force=True)
    expect(gpt.locator(".head .layout")).to_have_text("batch:data")
    axis = recipe(gpt, "zero_1").get_by_role("combobox")
    axis.focus()
    axis.select_option("model")
    expect(recipe(gpt, "zero_1").locator(".edits").first).to_contain_text("batch → data+model")
    expect(axis).to_be_focused()
    recipe(gpt, "megatron").get_by_role("combobox").select_option("data")
    expect(recipe(gpt, "megatron")).to_contain_text("which already shards batch")


def test_keys_alone_open_apply_and_close_the_recipes(gpt):
    gpt.keyboard.press("Escape")  # the focus is on its title
    expect(gpt.locator(".recipes")).to_be_hidden()
    expect(button(gpt)).to_be_focused()
    gpt.keyboard.press("Enter")
    expect(gpt.locator(".recipes h3")).to_be_focused()
    expect(button(gpt)).to_have_attribute("aria-expanded", "true")
    recipe(gpt, "zero_3").get_by_role("button", name="Apply").focus()
    gpt.keyboard.press("Enter")
    expect(recipe(gpt, "zero_3")).to_contain_text("✓ applied")
    expect(recipe(gpt, "zero_3").get_by_role("button", name="already applied")).to_be_focused()
    expect(gpt.locator("[aria-live=assertive]")).to_contain_text("zero_3")
    expect(gpt.get_by_role("button", name="Show full layout")).to_be_visible()
    gpt.keyboard.press("Escape")
    expect(button(gpt)).to_be_focused()


def test_a_value_that_is_gathered_whole_stands_out_and_a_tried_edit_mends_it(two_lines):
    open_tab(two_lines, "resharding")
    row = two_lines.locator("tr.bad-row")
    expect(row).to_contain_text("gathered whole, then sliced")
    row.get_by_role("button", name="gathered whole").click()
    expect(two_lines.get_by_role("dialog")).to_contain_text("every device gathers the whole value")
    two_lines.keyboard.press("Escape")
    row.get_by_role("button", name="Try more edits").click()
    expect(row.locator(".remedy")).to_have_count(2)
    expect(row.locator(".remedy").first).to_contain_text("−736 KiB a step")
    row.locator(".remedy .btn").first.click()
    expect(row).to_have_count(0)
    expect(figure(two_lines, "sent").locator(".delta")).to_have_text("−736 KiB")
    two_lines.locator("[data-verb=undo]").click()
    expect(row).to_have_count(1)


def test_the_chosen_tab_is_in_sight_in_a_narrow_cell(board):
    board.set_viewport_size({"width": 560, "height": 900})
    open_tab(board, "tensors")
    view_tab(board, "tensors").focus()
    board.keyboard.press("ArrowRight")
    expect(view_tab(board, "notes")).to_have_attribute("aria-selected", "true")
    expect(view_tab(board, "notes")).to_be_focused()
    board.keyboard.press("End")
    last = view_tab(board, "tensors")
    expect(last).to_be_focused()
    strip, box = board.locator(".tabs").first.bounding_box(), last.bounding_box()
    assert strip["x"] - 1 <= box["x"]
    assert box["x"] + box["width"] <= strip["x"] + strip["width"] + 1


def test_both_rows_of_tabs_are_walked_by_keyboard_and_a_view_keeps_its_section(board):
    open_tab(board, "communication")
    sections = board.get_by_role("tablist", name="Sections").get_by_role("tab")
    sections.first.focus()
    board.keyboard.press("ArrowRight")
    expect(sections.nth(1)).to_be_focused()
    expect(board.locator(".tables")).to_have_attribute("data-tab", "resharding")
    view_tab(board, "devices").focus()
    board.keyboard.press("ArrowLeft")
    expect(view_tab(board, "step")).to_be_focused()
    board.keyboard.press("ArrowRight")
    expect(board.locator(".tables")).to_have_attribute("data-tab", "resharding")
    expect(sections.nth(1)).to_have_attribute("aria-selected", "true")
    assert [each.get_attribute("tabindex") for each in board.get_by_role("tab").all()].count("0") == 2
