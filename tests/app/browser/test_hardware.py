"""Hardware chosen on the page, and what it brings: times, wiring, memory, pictures, compilation."""

import re

from playwright.sync_api import Page, expect

from tests.app.browser.conftest import open_board
from tests.app.browser.test_page import drag, figure, settled
from tests.support.scripted import ScriptedRunner
from workbench.models import build
from workbench.public_plan import Plan


def choose(page: Page, chip: str) -> None:
    page.get_by_label("kind of device").select_option(chip)
    settled(page)


def shape(page: Page):
    return page.get_by_label("shape or number of devices")


def test_a_chip_is_chosen_and_times_appear_and_undo_takes_it_back(board):
    choose(board, "TPU v5e")
    expect(shape(board)).to_have_value("2x4")
    expect(figure(board, "predicted").locator(".value")).to_have_text(re.compile(r"(µs|ms) ?on TPU v5e 2x4"))
    expect(figure(board, "memory")).to_contain_text("fits in 15.")
    expect(board.locator(".wiring")).to_contain_text("data→ y (line of 4)")
    board.locator("[data-verb=undo]").click()
    expect(board.get_by_label("kind of device")).to_have_value("")
    expect(figure(board, "predicted")).to_have_count(0)


def test_a_shape_that_does_not_exist_is_refused_under_its_field_and_stays_in_it(board):
    choose(board, "H100")
    shape(board).fill("9")
    board.keyboard.press("Enter")
    refusal = board.locator(".picker").get_by_role("alert")
    expect(refusal).to_contain_text("A node has 1 to 8 H100, not 9.")
    expect(shape(board)).to_have_value("9")
    expect(shape(board)).to_be_focused()
    shape(board).fill("2 nodes of 4")
    board.keyboard.press("Enter")
    expect(refusal).to_have_count(0)
    expect(board.locator(".wiring")).to_contain_text("node")


def test_shapes_and_wirings_are_chosen_by_key(board):
    choose(board, "TPU v5p")
    shape(board).focus()
    board.keyboard.press("ArrowDown")
    board.keyboard.press("ArrowDown")
    board.keyboard.press("Enter")
    expect(shape(board)).to_have_value("2x4x1")
    before = board.locator(".wiring").inner_text()
    board.get_by_label("Change the axes on links").press("Enter")
    board.keyboard.press("Enter")
    settled(board)
    assert board.locator(".wiring").inner_text() != before
    board.get_by_label("Change the axes on links").click()
    board.get_by_role("menuitem", name="Write…").click()
    board.get_by_label("Axes on links", exact=True).fill("data:z")
    board.keyboard.press("Enter")
    expect(board.locator(".picker").get_by_role("alert")).to_contain_text("data")


def test_a_mesh_that_outgrows_its_hardware_is_offered_larger_one(board):
    choose(board, "TPU v5e")
    board.get_by_label("size of mesh axis model").fill("6")
    board.keyboard.press("Enter")
    expect(board.locator(".about").get_by_role("alert")).to_contain_text("TPU v5e 2x4 has 8")
    board.locator(".about").get_by_role("button").first.click()
    settled(board)
    expect(board.locator(".about").get_by_role("alert")).to_have_count(0)


def test_with_hardware_the_tables_of_communication_say_what_is_waited_for(board):
    board.get_by_role("tab", name="Communication").click()
    column = board.locator(".tables th", has_text="waited for")
    expect(board.locator(".tables th").first).to_be_visible()
    expect(column).to_have_count(0)
    choose(board, "TPU v5e")
    expect(column.first).to_be_visible()


def test_a_compilation_shows_its_progress_and_then_stands_beside_the_prediction(board, stage):
    stage.runner = ScriptedRunner(pause=0.03)
    button = board.get_by_role("button", name="Compile", exact=True)
    button.hover()
    for _ in range(500):
        if stage.runner.expected is None:
            board.wait_for_timeout(20)
    assert stage.runner.expected is not None, "its process starts while the hand is on its way"
    button.click()
    expect(board.locator(".compile .stage")).to_have_text(re.compile(r"\w+ · \d+ s"))
    drag(board, "hidden", "model")  # the page is not held up
    board.locator(".compile[data-phase=done]").wait_for()
    expect(board.locator(".compile")).to_contain_text("Compiled before the last edit")
    board.locator("[data-verb=undo]").click()
    expect(figure(board, "memory").locator(".tier")).to_contain_text("compiled")
    board.get_by_role("button", name="Open Compared").click()
    expect(board.locator(".tables")).to_contain_text("Differences and causes")
    expect(board.locator(".tables [title*='twice the bytes']").first).to_have_text("widened")


def test_a_compilation_is_cancelled_or_fails_in_words(board, stage):
    stage.runner = ScriptedRunner(pause=0.1)
    board.get_by_role("button", name="Compile", exact=True).click()
    board.get_by_role("button", name="Cancel the compilation").click()
    expect(board.locator(".compile .message")).to_have_text("Cancelled.")
    stage.runner = ScriptedRunner(message="The compiler gave up.")
    board.get_by_role("button", name="Compile", exact=True).click()
    expect(board.locator(".compile .message")).to_have_text("The compiler gave up.")


def test_how_the_program_is_traced_is_chosen_under_the_layout_from_a_menu_or_as_text(guarded, server, stage):
    stage.make = lambda: Plan(build("gpt", layers=2), "data:4", "batch:data")
    open_board(guarded, server)
    remat = guarded.locator("[data-focus=traced-remat]")
    expect(remat).to_have_text("as traced ▾")
    remat.click()
    guarded.get_by_role("menuitem").filter(has_text="keeps layer inputs").click()
    expect(remat).to_have_text("full ▾")
    expect(figure(guarded, "memory").locator(".delta")).to_contain_text("−")
    expect(guarded.locator("[data-verb=undo]")).to_have_attribute("title", "Undo remat full")
    remat.press("Enter")
    guarded.get_by_role("menuitem", name="Other…").press("Enter")
    guarded.locator(".menu input").fill("save:everything")
    guarded.keyboard.press("Enter")
    expect(guarded.locator(".program").get_by_role("alert")).to_contain_text("There is no named value everything")
    expect(remat).to_have_text("full ▾")
