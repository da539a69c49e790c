"""The tensor board in a browser: chips dragged by pointer, finger and key; overrides, constraints, folds, search; the mesh; and "why?"."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.browser.conftest import open_board
from tests.app.browser.test_page import centre, drag, settled, zone
from tests.support.tabs import open_tab
from workbench.models import build
from workbench.public_plan import Plan


@pytest.fixture
def tensors(board: Page) -> Page:
    """The page with its tensors open."""
    open_tab(board, "tensors")
    return board


NAME = {"x": 10, "y": 8}
"""Within a chip: its name. The axis behind it is a button of its own, which says why."""


def chip(page: Page, path: str, place: int):
    return page.locator(f'tr[data-subject="{path}"] .dim .grip[data-place="{place}"]')


def target(page: Page, axis: str):
    return page.locator(f'.droptarget[data-axis="{axis}"]')


def layout(page: Page):
    return page.locator(".head .layout")


def lift(page: Page, path: str, place: int, over) -> None:
    chip(page, path, place).scroll_into_view_if_needed()
    page.mouse.move(*centre(chip(page, path, place)))
    page.mouse.down()
    page.mouse.move(*centre(over), steps=5)


def only_this(page: Page) -> None:
    page.get_by_role("button", name="only this").click()


def test_a_chip_of_a_tensor_dropped_on_an_axis_moves_every_tensor_by_the_rule(tensors):
    lift(tensors, "w", 1, target(tensors, "model"))
    tensors.mouse.up()
    settled(tensors)
    expect(layout(tensors)).to_have_text("batch:data; hidden:model")
    expect(chip(tensors, "v", 0)).to_contain_text("model")
    expect(chip(tensors, "w", 1)).to_contain_text("model")


def test_a_chip_of_a_tensor_may_be_dropped_on_the_board_too(tensors):
    lift(tensors, "w", 1, zone(tensors, "model"))
    tensors.mouse.up()
    settled(tensors)
    expect(layout(tensors)).to_have_text("batch:data; hidden:model")


def test_only_this_tensor_makes_an_override_that_is_marked_and_taken_back(tensors):
    only_this(tensors)
    lift(tensors, "w", 0, target(tensors, "data"))
    tensors.mouse.up()
    settled(tensors)
    expect(layout(tensors)).to_have_text("batch:data; w=[data, -]")
    expect(chip(tensors, "v", 1)).not_to_contain_text("data")
    expect(tensors.locator('tr[data-subject="w"] .own')).to_have_attribute("title", re.compile(r"override w\b.*Remove the override"))
    tensors.locator('tr[data-subject="w"] .own').click()
    expect(layout(tensors)).to_have_text("batch:data")
    expect(tensors.locator(".own")).to_have_count(0)


def test_alt_while_dropping_does_the_other(tensors):
    lift(tensors, "w", 0, target(tensors, "data"))
    tensors.keyboard.down("Alt")
    tensors.mouse.up()
    tensors.keyboard.up("Alt")
    settled(tensors)
    expect(layout(tensors)).to_have_text("batch:data; w=[data, -]")


def test_an_illegal_target_says_why_before_the_drop_and_the_drop_is_refused_there(tensors):
    lift(tensors, "w", 1, target(tensors, "data"))
    expect(target(tensors, "data")).to_have_class(re.compile("barred"))
    expect(target(tensors, "data").locator(".why")).to_have_text("30 % 4 = 2")
    expect(zone(tensors, "data").locator(".why")).to_have_text("30 % 4 = 2")
    expect(target(tensors, "model")).not_to_have_class(re.compile("barred"))
    tensors.mouse.up()
    expect(tensors.locator(".tensorbar").get_by_role("alert")).to_contain_text("30 % 4 = 2")
    expect(layout(tensors)).to_have_text("batch:data")


def test_an_override_is_judged_by_its_own_tensor(tensors):
    """`batch` is on `data`: the rule of `io` may not go there because of x, but w alone may."""
    lift(tensors, "w", 0, target(tensors, "data"))
    expect(target(tensors, "data").locator(".why")).to_contain_text("batch on data")
    tensors.keyboard.press("Escape")
    tensors.mouse.up()
    only_this(tensors)
    lift(tensors, "w", 0, target(tensors, "model"))
    expect(target(tensors, "model")).to_have_class(re.compile("over"))
    expect(tensors.locator(".droptarget .why")).to_have_count(0)
    tensors.keyboard.press("Escape")
    tensors.mouse.up()
    expect(layout(tensors)).to_have_text("batch:data")


def test_the_keyboard_alone_overrides_a_tensor(tensors):
    row = tensors.locator('tr[data-subject="w"]')
    row.focus()
    tensors.keyboard.press("ArrowRight")
    tensors.keyboard.press("ArrowRight")
    expect(chip(tensors, "w", 1)).to_be_focused()
    tensors.keyboard.press("Space")
    said = tensors.locator("[aria-live=assertive]")
    expect(said).to_contain_text("hidden taken")
    tensors.keyboard.press("o")
    expect(said).to_have_text("Only w.")
    settled(tensors)
    tensors.keyboard.press("ArrowRight")
    tensors.keyboard.press("ArrowRight")
    expect(said).to_contain_text("data, 2 of 3. Not possible: 30 % 4 = 2")
    tensors.keyboard.press("ArrowRight")
    tensors.keyboard.press("Space")
    expect(layout(tensors)).to_have_text("batch:data; w=[-, model]")
    expect(chip(tensors, "w", 1)).to_be_focused()


def test_the_menu_of_a_chip_offers_the_rule_and_this_tensor_alone(tensors):
    chip(tensors, "w", 1).click(position=NAME)
    menu = tensors.get_by_role("menu")
    expect(menu.locator(".heading")).to_have_text(["Every hidden, in 2 tensors", "Only w", "In propagation"])
    expect(menu.get_by_role("menuitem", name="Put hidden on data")).to_contain_text("30 % 4 = 2")
    menu.get_by_role("menuitem", name="Put hidden on model").click()
    expect(layout(tensors)).to_have_text("batch:data; w=[-, model]")
    chip(tensors, "w", 1).click(position=NAME)
    tensors.get_by_role("menuitem", name="Replicate on every device").click()
    expect(layout(tensors)).to_have_text("batch:data; w=[-, -]")
    chip(tensors, "w", 1).click(position=NAME)
    tensors.get_by_role("menuitem", name="Remove the override").click()
    expect(layout(tensors)).to_have_text("batch:data")


def test_a_menu_opens_where_its_chip_is_drawn_anew_under_the_press(tensors):
    drag(tensors, "hidden", "model")
    expect(layout(tensors)).to_have_text("batch:data; hidden:model")
    settled(tensors)
    box = chip(tensors, "w", 1).bounding_box()
    tensors.mouse.move(box["x"] + NAME["x"], box["y"] + NAME["y"])
    tensors.mouse.down()
    tensors.keyboard.press("Control+z")
    expect(tensors.locator(".wb")).to_have_attribute("data-busy", "false")
    tensors.mouse.up()
    expect(tensors.get_by_role("menu")).to_contain_text("Every hidden, in 2 tensors")
    expect(layout(tensors)).to_have_text("batch:data")


def test_a_finger_drags_the_chip_of_a_tensor(browser, server, stage):
    context = browser.new_context(has_touch=True, viewport={"width": 900, "height": 1000})
    page = context.new_page()
    page.goto(server[0])
    open_tab(page, "tensors")
    chip(page, "w", 1).wait_for()
    chip(page, "w", 1).scroll_into_view_if_needed()
    session = context.new_cdp_session(page)
    x, y = centre(chip(page, "w", 1))
    to_x, to_y = centre(target(page, "model"))
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for part in (0.3, 0.6, 1.0):
        point = {"x": x + part * (to_x - x), "y": y + part * (to_y - y)}
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(layout(page)).to_have_text("batch:data; hidden:model")
    context.close()


def test_the_axes_of_one_dimension_change_their_order_by_a_drop(tensors):
    drag(tensors, "hidden", "model")
    tensors.mouse.move(*centre(zone(tensors, "data").locator('.grip[data-dim="batch"]')))
    tensors.mouse.down()
    tensors.keyboard.down("Shift")
    tensors.mouse.move(*centre(zone(tensors, "model")), steps=5)
    tensors.mouse.up()
    tensors.keyboard.up("Shift")
    settled(tensors)
    expect(layout(tensors)).to_have_text("batch:data+model; hidden:model")
    on = chip(tensors, "x", 0).locator(".on")
    expect(on).to_have_text(["1 data", "2 model"])
    tensors.mouse.move(*centre(on.nth(1)))
    tensors.mouse.down()
    tensors.mouse.move(*centre(target(tensors, "data")), steps=5)
    tensors.mouse.up()
    expect(layout(tensors)).to_have_text("batch:model+data; hidden:model")


def test_a_value_is_constrained_and_freed(tensors):
    open_tab(tensors, "values")
    expect(tensors.get_by_label("Search intermediate values")).to_be_visible()
    settled(tensors)
    row = tensors.locator("tbody tr", has=tensors.locator('.grip[data-dim="hidden"]')).first
    row.locator('.grip[data-dim="hidden"]').click()
    tensors.get_by_role("menuitem", name="Put hidden on model").click()
    expect(layout(tensors)).to_have_text(re.compile(r"^batch:data; @\S+=\[.*model.*\]$"))
    own = tensors.locator("tbody .own").first
    expect(own).to_contain_text("constrained")
    own.click()
    expect(layout(tensors)).to_have_text("batch:data")


def test_layers_unfold_and_one_of_them_goes_its_own_way(guarded, server, stage):
    plan = Plan(build("gpt", scan=False), "data:4 model:2", "batch:data; d_ff:model")
    stage.make = lambda: plan
    open_board(guarded, server)
    open_tab(guarded, "tensors")
    path = "params/layers/*/mlp/w1"
    guarded.locator(f'tr[data-subject="{path}"] .fold').click()
    expect(guarded.locator('tr[data-subject^="params/layers/"][data-subject$="/mlp/w1"]')).to_have_count(5)
    only_this(guarded)
    lift(guarded, "params/layers/2/mlp/w1", 0, target(guarded, "data"))
    guarded.mouse.up()
    settled(guarded)
    expect(layout(guarded)).to_have_text("batch:data; d_ff:model; params/layers/2/mlp/w1=[data, model]")
    expect(guarded.locator("tbody .path", has_text="layers[0..1,3]/mlp/w1")).to_be_visible()
    guarded.get_by_role("searchbox").fill("mu mlp w1")
    expect(guarded.locator("tbody tr[data-subject]")).to_have_count(1)
    expect(guarded.locator("tr.section")).to_contain_text("Optimizer state")


def test_a_row_is_selected_by_click_and_by_key_and_marked_in_every_tab(tensors):
    tensors.locator('tr[data-subject="w"] td').first.click()
    expect(tensors.locator('tr[data-subject="w"]')).to_have_class("chosen")
    tensors.keyboard.press("Tab")
    tensors.locator('tr[data-subject="v"]').focus()
    tensors.keyboard.press("Enter")
    expect(tensors.locator('tr[data-subject="v"]')).to_have_attribute("aria-current", "true")
    expect(tensors.locator('tr[data-subject="w"]')).not_to_have_class("chosen")
    open_tab(tensors, "memory")
    expect(tensors.locator('tr[data-subject="v"]')).to_have_class("chosen")
    tensors.locator('tr[data-subject="v"] td').first.click()
    expect(tensors.locator(".chosen")).to_have_count(0)


def test_every_figure_tells_why(tensors):
    drag(tensors, "hidden", "model")
    panel = tensors.get_by_role("complementary", name="Why?")
    for key in ("memory", "sent", "flops", "duplication"):
        figure = tensors.locator(f'[data-figure="{key}"]')
        figure.hover()
        figure.get_by_role("button", name="Why?").click()
        expect(panel.get_by_role("heading"), key).to_contain_text("Why ")
        expect(panel.get_by_role("heading"), key).to_be_focused()
        tensors.keyboard.press("Escape")
        expect(panel, key).to_be_hidden()
        expect(figure.get_by_role("button", name="Why?"), key).to_be_focused()


def test_the_answer_follows_the_next_edit(tensors):
    tensors.locator('[data-figure="flops"]').get_by_role("button", name="Why?").click()
    heading = tensors.get_by_role("complementary", name="Why?").get_by_role("heading")
    before = heading.text_content()
    drag(tensors, "hidden", "model", source="")
    expect(heading).not_to_have_text(before)


def test_a_tensor_and_a_collective_tell_why(tensors):
    drag(tensors, "hidden", "model")
    tensors.locator('tr[data-subject="w"] .ask').click()
    panel = tensors.get_by_role("complementary", name="Why?")
    expect(panel).to_contain_text("rule hidden:model")
    tensors.keyboard.press("Escape")
    open_tab(tensors, "communication")
    tensors.locator(".tables[data-tab=communication] tr[data-subject] .ask").first.click()
    expect(panel).to_contain_text("a summed dimension is sharded there")


def test_a_drop_says_how_many_collectives_it_added_and_took_away(tensors):
    drag(tensors, "hidden", "model")
    expect(tensors.locator('[data-figure="sent"] .changes')).to_contain_text(re.compile(r"\+\d+ all-reduce"))
    tensors.keyboard.press("Control+z")
    expect(tensors.locator('[data-figure="sent"] .changes')).to_contain_text(re.compile(r"−\d+ all-reduce"))


def test_mesh_axes_are_reordered_by_hand_and_by_key(tensors):
    handle = zone(tensors, "model").locator(".handle")
    tensors.mouse.move(*centre(handle))
    tensors.mouse.down()
    box = zone(tensors, "data").bounding_box()
    tensors.mouse.move(box["x"] + 20, box["y"] + 40, steps=5)
    expect(zone(tensors, "data")).to_have_class(re.compile("before"))
    tensors.mouse.up()
    expect(tensors.locator(".mesh")).to_have_text("model:2 × data:4")
    zone(tensors, "model").locator(".handle").focus()
    tensors.keyboard.press("ArrowRight")
    expect(tensors.locator(".mesh")).to_have_text("data:4 × model:2")
    expect(zone(tensors, "model").locator(".handle")).to_be_focused()


def test_devices_are_counted_against_the_hardware(tensors):
    count = tensors.locator(".legendline .devices")
    expect(count).to_have_text("4 × 2 = 8 devices")
    tensors.get_by_label("kind of device").select_option("H100")
    expect(count).to_have_text("4 × 2 = 8 of 8 devices")
    size = tensors.get_by_label("size of mesh axis data")
    size.focus()
    tensors.keyboard.press("ArrowUp")
    expect(size).to_have_value("8")
    tensors.keyboard.press("Enter")
    expect(count).to_contain_text("8 × 2 = 16 of 8 devices: 8 too many for")


def test_a_bad_size_is_refused_in_words(tensors):
    field = tensors.get_by_label("size of mesh axis data")
    for size in ("0", "1000000000", "-4", "many"):
        field.fill(size)
        field.press("Enter")
        said = f"{size} is not a size of a mesh axis; it is a whole number from 1 to 1,048,576"
        expect(zone(tensors, "data").get_by_role("alert")).to_contain_text(said)
        expect(tensors.locator(".mesh")).to_have_text("data:4 × model:2")


def test_a_name_of_500_characters_is_refused_in_words(tensors):
    zone(tensors, "data").get_by_role("button", name="Menu of mesh axis data").click()
    tensors.get_by_role("menuitem", name="Rename…").click()
    tensors.get_by_role("textbox", name="New name").evaluate("(field) => { field.maxLength = 600; }")
    tensors.get_by_role("textbox", name="New name").fill("n" * 500)
    tensors.keyboard.press("Enter")
    expect(zone(tensors, "data").get_by_role("alert")).to_contain_text("is not a valid name of a mesh axis")
    expect(tensors.locator(".mesh")).to_have_text("data:4 × model:2")
