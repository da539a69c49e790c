"""The tensor board in a browser: chips dragged by pointer, finger and key; overrides, constraints, folds, search; the mesh; and "why?"."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.browser.test_page import centre, drag, settled, zone
from tests.support.tabs import open_tab
from workbench.models import build
from workbench.public_plan import Plan


@pytest.fixture
def board(board: Page) -> Page:
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


def test_a_chip_of_a_tensor_dropped_on_an_axis_moves_every_tensor_by_the_rule(board):
    lift(board, "w", 1, target(board, "model"))
    board.mouse.up()
    settled(board)
    expect(layout(board)).to_have_text("batch:data; hidden:model")
    expect(chip(board, "v", 0)).to_contain_text("model")
    expect(chip(board, "w", 1)).to_contain_text("model")


def test_a_chip_of_a_tensor_may_be_dropped_on_the_board_too(board):
    lift(board, "w", 1, zone(board, "model"))
    board.mouse.up()
    settled(board)
    expect(layout(board)).to_have_text("batch:data; hidden:model")


def test_only_this_tensor_makes_an_override_that_is_marked_and_taken_back(board):
    only_this(board)
    lift(board, "w", 0, target(board, "data"))
    board.mouse.up()
    settled(board)
    expect(layout(board)).to_have_text("batch:data; w=[data, -]")
    expect(chip(board, "v", 1)).not_to_contain_text("data")
    expect(board.locator('tr[data-subject="w"] .own')).to_have_attribute("title", re.compile(r"override w\b.*Remove the override"))
    board.locator('tr[data-subject="w"] .own').click()
    expect(layout(board)).to_have_text("batch:data")
    expect(board.locator(".own")).to_have_count(0)


def test_alt_while_dropping_does_the_other(board):
    lift(board, "w", 0, target(board, "data"))
    board.keyboard.down("Alt")
    board.mouse.up()
    board.keyboard.up("Alt")
    settled(board)
    expect(layout(board)).to_have_text("batch:data; w=[data, -]")


def test_an_illegal_target_says_why_before_the_drop_and_the_drop_is_refused_there(board):
    lift(board, "w", 1, target(board, "data"))
    expect(target(board, "data")).to_have_class(re.compile("barred"))
    expect(target(board, "data").locator(".why")).to_have_text("30 % 4 = 2")
    expect(zone(board, "data").locator(".why")).to_have_text("30 % 4 = 2")
    expect(target(board, "model")).not_to_have_class(re.compile("barred"))
    board.mouse.up()
    expect(board.locator(".tensorbar").get_by_role("alert")).to_contain_text("30 % 4 = 2")
    expect(layout(board)).to_have_text("batch:data")


def test_an_override_is_judged_by_its_own_tensor(board):
    """`batch` is on `data`: the rule of `io` may not go there because of x, but w alone may."""
    lift(board, "w", 0, target(board, "data"))
    expect(target(board, "data").locator(".why")).to_contain_text("batch on data")
    board.keyboard.press("Escape")
    board.mouse.up()
    only_this(board)
    lift(board, "w", 0, target(board, "model"))
    expect(target(board, "model")).to_have_class(re.compile("over"))
    expect(board.locator(".droptarget .why")).to_have_count(0)
    board.keyboard.press("Escape")
    board.mouse.up()
    expect(layout(board)).to_have_text("batch:data")


def test_the_keyboard_alone_overrides_a_tensor(board):
    row = board.locator('tr[data-subject="w"]')
    row.focus()
    board.keyboard.press("ArrowRight")
    board.keyboard.press("ArrowRight")
    expect(chip(board, "w", 1)).to_be_focused()
    board.keyboard.press("Space")
    said = board.locator("[aria-live=assertive]")
    expect(said).to_contain_text("hidden taken")
    board.keyboard.press("o")
    expect(said).to_have_text("Only w.")
    settled(board)
    board.keyboard.press("ArrowRight")
    board.keyboard.press("ArrowRight")
    expect(said).to_contain_text("data, 2 of 3. Not possible: 30 % 4 = 2")
    board.keyboard.press("ArrowRight")
    board.keyboard.press("Space")
    expect(layout(board)).to_have_text("batch:data; w=[-, model]")
    expect(chip(board, "w", 1)).to_be_focused()


def test_the_menu_of_a_chip_offers_the_rule_and_this_tensor_alone(board):
    chip(board, "w", 1).click(position=NAME)
    menu = board.get_by_role("menu")
    expect(menu.locator(".heading")).to_have_text(["Every hidden, in 2 tensors", "Only w", "In propagation"])
    expect(menu.get_by_role("menuitem", name="Put hidden on data")).to_contain_text("30 % 4 = 2")
    menu.get_by_role("menuitem", name="Put hidden on model").click()
    expect(layout(board)).to_have_text("batch:data; w=[-, model]")
    chip(board, "w", 1).click(position=NAME)
    board.get_by_role("menuitem", name="Replicate on every device").click()
    expect(layout(board)).to_have_text("batch:data; w=[-, -]")
    chip(board, "w", 1).click(position=NAME)
    board.get_by_role("menuitem", name="Remove the override").click()
    expect(layout(board)).to_have_text("batch:data")


def test_a_menu_opens_where_its_chip_is_drawn_anew_under_the_press(board):
    drag(board, "hidden", "model")
    expect(layout(board)).to_have_text("batch:data; hidden:model")
    settled(board)
    box = chip(board, "w", 1).bounding_box()
    board.mouse.move(box["x"] + NAME["x"], box["y"] + NAME["y"])
    board.mouse.down()
    board.keyboard.press("Control+z")
    expect(board.locator(".wb")).to_have_attribute("data-busy", "false")
    board.mouse.up()
    expect(board.get_by_role("menu")).to_contain_text("Every hidden, in 2 tensors")
    expect(layout(board)).to_have_text("batch:data")


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


def test_the_axes_of_one_dimension_change_their_order_by_a_drop(board):
    drag(board, "hidden", "model")
    board.mouse.move(*centre(zone(board, "data").locator('.grip[data-dim="batch"]')))
    board.mouse.down()
    board.keyboard.down("Shift")
    board.mouse.move(*centre(zone(board, "model")), steps=5)
    board.mouse.up()
    board.keyboard.up("Shift")
    settled(board)
    expect(layout(board)).to_have_text("batch:data+model; hidden:model")
    on = chip(board, "x", 0).locator(".on")
    expect(on).to_have_text(["1 data", "2 model"])
    board.mouse.move(*centre(on.nth(1)))
    board.mouse.down()
    board.mouse.move(*centre(target(board, "data")), steps=5)
    board.mouse.up()
    expect(layout(board)).to_have_text("batch:model+data; hidden:model")


def test_a_value_is_constrained_and_freed(board):
    open_tab(board, "values")
    expect(board.get_by_label("Search intermediate values")).to_be_visible()
    settled(board)
    row = board.locator("tbody tr", has=board.locator('.grip[data-dim="hidden"]')).first
    row.locator('.grip[data-dim="hidden"]').click()
    board.get_by_role("menuitem", name="Put hidden on model").click()
    expect(layout(board)).to_have_text(re.compile(r"^batch:data; @\S+=\[.*model.*\]$"))
    own = board.locator("tbody .own").first
    expect(own).to_contain_text("constrained")
    own.click()
    expect(layout(board)).to_have_text("batch:data")


def test_layers_unfold_and_one_of_them_goes_its_own_way(guarded, server, stage):
    plan = Plan(build("gpt", scan=False), "data:4 model:2", "batch:data; d_ff:model")
    stage.make = lambda: plan
    guarded.goto(server[0])
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


def test_a_row_is_selected_by_click_and_by_key_and_marked_in_every_tab(board):
    board.locator('tr[data-subject="w"] td').first.click()
    expect(board.locator('tr[data-subject="w"]')).to_have_class("chosen")
    board.keyboard.press("Tab")
    board.locator('tr[data-subject="v"]').focus()
    board.keyboard.press("Enter")
    expect(board.locator('tr[data-subject="v"]')).to_have_attribute("aria-current", "true")
    expect(board.locator('tr[data-subject="w"]')).not_to_have_class("chosen")
    open_tab(board, "memory")
    expect(board.locator('tr[data-subject="v"]')).to_have_class("chosen")
    board.locator('tr[data-subject="v"] td').first.click()
    expect(board.locator(".chosen")).to_have_count(0)


def test_every_figure_tells_why(board):
    drag(board, "hidden", "model")
    panel = board.get_by_role("complementary", name="Why?")
    for key in ("memory", "sent", "flops", "duplication"):
        figure = board.locator(f'[data-figure="{key}"]')
        figure.hover()
        figure.get_by_role("button", name="Why?").click()
        expect(panel.get_by_role("heading"), key).to_contain_text("Why ")
        expect(panel.get_by_role("heading"), key).to_be_focused()
        board.keyboard.press("Escape")
        expect(panel, key).to_be_hidden()
        expect(figure.get_by_role("button", name="Why?"), key).to_be_focused()


def test_the_answer_follows_the_next_edit(board):
    board.locator('[data-figure="flops"]').get_by_role("button", name="Why?").click()
    heading = board.get_by_role("complementary", name="Why?").get_by_role("heading")
    before = heading.text_content()
    drag(board, "hidden", "model", source="")
    expect(heading).not_to_have_text(before)


def test_a_tensor_and_a_collective_tell_why(board):
    drag(board, "hidden", "model")
    board.locator('tr[data-subject="w"] .ask').click()
    panel = board.get_by_role("complementary", name="Why?")
    expect(panel).to_contain_text("rule hidden:model")
    board.keyboard.press("Escape")
    open_tab(board, "communication")
    board.locator(".tables[data-tab=communication] tr[data-subject] .ask").first.click()
    expect(panel).to_contain_text("a summed dimension is sharded there")


def test_a_drop_says_how_many_collectives_it_added_and_took_away(board):
    drag(board, "hidden", "model")
    expect(board.locator('[data-figure="sent"] .changes')).to_contain_text(re.compile(r"\+\d+ all-reduce"))
    board.keyboard.press("Control+z")
    expect(board.locator('[data-figure="sent"] .changes')).to_contain_text(re.compile(r"−\d+ all-reduce"))


def test_mesh_axes_are_reordered_by_hand_and_by_key(board):
    handle = zone(board, "model").locator(".handle")
    board.mouse.move(*centre(handle))
    board.mouse.down()
    box = zone(board, "data").bounding_box()
    board.mouse.move(box["x"] + 20, box["y"] + 40, steps=5)
    expect(zone(board, "data")).to_have_class(re.compile("before"))
    board.mouse.up()
    expect(board.locator(".mesh")).to_have_text("model:2 × data:4")
    zone(board, "model").locator(".handle").focus()
    board.keyboard.press("ArrowRight")
    expect(board.locator(".mesh")).to_have_text("data:4 × model:2")
    expect(zone(board, "model").locator(".handle")).to_be_focused()


def test_devices_are_counted_against_the_hardware(board):
    count = board.locator(".legendline .devices")
    expect(count).to_have_text("4 × 2 = 8 devices")
    board.get_by_label("kind of device").select_option("H100")
    expect(count).to_have_text("4 × 2 = 8 of 8 devices")
    size = board.get_by_label("size of mesh axis data")
    size.focus()
    board.keyboard.press("ArrowUp")
    expect(size).to_have_value("8")
    board.keyboard.press("Enter")
    expect(count).to_contain_text("8 × 2 = 16 of 8 devices: 8 too many for")


def test_a_bad_size_is_refused_in_words(board):
    field = board.get_by_label("size of mesh axis data")
    for size in ("0", "1000000000", "-4", "many"):
        field.fill(size)
        field.press("Enter")
        said = f"{size} is not a size of a mesh axis; it is a whole number from 1 to 1,048,576"
        expect(zone(board, "data").get_by_role("alert")).to_contain_text(said)
        expect(board.locator(".mesh")).to_have_text("data:4 × model:2")


def test_a_name_of_500_characters_is_refused_in_words(board):
    zone(board, "data").get_by_role("button", name="Menu of mesh axis data").click()
    board.get_by_role("menuitem", name="Rename…").click()
    board.get_by_role("textbox", name="New name").evaluate("(field) => { field.maxLength = 600; }")
    board.get_by_role("textbox", name="New name").fill("n" * 500)
    board.keyboard.press("Enter")
    expect(zone(board, "data").get_by_role("alert")).to_contain_text("is not a valid name of a mesh axis")
    expect(board.locator(".mesh")).to_have_text("data:4 × model:2")
