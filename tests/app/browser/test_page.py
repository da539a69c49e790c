"""What a person does with the page: drag, keys, clicks, resize, run; and what they read when it goes wrong."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.scripted import ScriptedRunner
from tests.support.servers import free_port, wait_for
from tests.support.tabs import open_tab
from workbench.app.page.serve import serve
from workbench.app.runners.job_queue import JobQueue
from workbench.app.runners.queued_runner import QueuedRunner
from workbench.errors import LayoutError
from workbench.public_plan import Plan
from workbench.session.plan_history import Session


def zone(page: Page, axis: str):
    return page.locator(f'.zone[data-axis="{axis}"]')


def grip(page: Page, dim: str, source: str = ""):
    return zone(page, source).locator(f'.grip[data-dim="{dim}"]')


def centre(locator) -> tuple[float, float]:
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def lift(page: Page, dim: str, axis: str, source: str = "") -> None:
    """Drag a chip over a zone and hold it there. Both are brought into view first."""
    for each in (zone(page, axis), grip(page, dim, source)):
        each.scroll_into_view_if_needed()
    page.mouse.move(*centre(grip(page, dim, source)))
    page.mouse.down()
    x, y = centre(zone(page, axis))
    page.mouse.move(x, y + 20, steps=5)


def drag(page: Page, dim: str, axis: str, source: str = "") -> None:
    lift(page, dim, axis, source)
    page.mouse.up()
    settled(page)


def settled(page: Page) -> None:
    page.locator(".wb[data-busy=false]").wait_for()


def figure(page: Page, key: str):
    return page.locator(f'[data-figure="{key}"]')


def test_a_dimension_dragged_onto_an_axis_splits_it_there(board):
    drag(board, "hidden", "model")
    expect(grip(board, "hidden", "model")).to_contain_text("30 → 15")
    expect(board.locator(".layout")).to_have_text("batch:data; hidden:model")
    expect(figure(board, "duplication").locator(".value")).to_contain_text("1.00×")
    expect(figure(board, "duplication").locator(".delta")).to_have_text("−1.00×")
    expect(open_tab(board, "tensors").locator("tbody tr", has_text="w").first).to_contain_text("64×15")


def test_the_tab_of_the_browser_names_the_program(board):
    expect(board).to_have_title("two-layer · Sharding workbench")


def test_a_chip_dragged_back_is_whole_again(board):
    drag(board, "batch", "", source="data")
    expect(board.locator(".layout")).to_have_text("everything replicated")
    expect(grip(board, "batch")).to_be_visible()


def test_fast_drags_all_land(board):
    """A repaint in the middle of a drag would end it: the page paints when the hand is empty."""
    for _ in range(4):
        drag(board, "hidden", "model")
        drag(board, "hidden", "", source="model")
    expect(board.locator(".layout")).to_have_text("batch:data")
    expect(board.locator("[data-verb=undo]")).to_have_attribute("title", "Undo hidden → whole")


def test_an_illegal_target_says_why_under_the_hand_and_the_drop_changes_nothing(board):
    lift(board, "hidden", "data")
    expect(zone(board, "data")).to_have_class(re.compile("barred"))
    expect(zone(board, "data").locator(".why")).to_have_text("30 % 4 = 2")
    expect(zone(board, "model")).not_to_have_class(re.compile("barred"))
    board.mouse.up()
    refusal = zone(board, "data").get_by_role("alert")
    expect(refusal).to_contain_text("30 % 4 = 2")
    expect(refusal).to_contain_text("leave hidden whole")
    expect(board.locator(".layout")).to_have_text("batch:data")
    expect(grip(board, "hidden")).to_be_visible()
    refusal.get_by_role("button", name="Dismiss").click()
    expect(refusal).to_have_count(0)


def test_a_hand_that_rests_over_a_zone_has_its_answer_worked_out(board, monkeypatch):
    foreseen, foresee = [], Session.foresee
    monkeypatch.setattr(Session, "foresee", lambda session, edit: foreseen.append(str(edit)) or foresee(session, edit))
    lift(board, "hidden", "data")
    expect(zone(board, "data")).to_have_class(re.compile("barred"))
    board.mouse.move(*centre(zone(board, "model")), steps=5)
    for _ in range(500):
        if not foreseen:
            board.wait_for_timeout(20)
    expect(board.locator(".layout")).to_have_text("batch:data")
    board.mouse.up()
    expect(board.locator(".layout")).to_have_text("batch:data; hidden:model")
    assert foreseen == ["hidden → model"] * 2  # and once more, without work, as it was done


def test_a_drag_is_cancelled_by_escape_and_outside_the_zones(board):
    lift(board, "hidden", "model")
    board.keyboard.press("Escape")
    board.mouse.up()
    expect(board.locator(".ghost")).to_have_count(0)
    lift(board, "hidden", "model")
    board.mouse.move(640, 30)
    board.mouse.up()
    expect(board.locator(".layout")).to_have_text("batch:data")


def test_the_keyboard_alone_places_a_dimension(board):
    grip(board, "hidden").focus()
    board.keyboard.press("Space")
    expect(board.locator("[aria-live=assertive]")).to_contain_text("hidden taken")
    board.keyboard.press("ArrowRight")
    expect(board.locator("[aria-live=assertive]")).to_contain_text("Not possible: 30 % 4 = 2")
    board.keyboard.press("ArrowRight")
    expect(board.locator("[aria-live=assertive]")).to_contain_text("model, 3 of 3")
    board.keyboard.press("Space")
    expect(board.locator(".layout")).to_have_text("batch:data; hidden:model")
    expect(grip(board, "hidden", "model")).to_be_focused()
    expect(board.locator("[aria-live=assertive]")).to_have_text("hidden → model")


def test_escape_lets_go_of_a_chip_taken_by_key(board):
    grip(board, "hidden").focus()
    board.keyboard.press("Enter")
    board.keyboard.press("ArrowDown")
    board.keyboard.press("Escape")
    expect(board.locator(".picked")).to_have_count(0)
    expect(board.locator(".layout")).to_have_text("batch:data")


def test_a_click_picks_and_a_click_drops(board):
    grip(board, "hidden").click()
    expect(board.locator(".picked")).to_have_count(1)
    zone(board, "model").click(position={"x": 150, "y": 90})
    expect(board.locator(".layout")).to_have_text("batch:data; hidden:model")


def test_shift_adds_an_axis_and_the_menu_turns_the_order_around(board):
    board.keyboard.down("Shift")
    drag(board, "batch", "model", source="data")
    board.keyboard.up("Shift")
    expect(board.locator(".layout")).to_have_text("batch:data+model")
    expect(grip(board, "batch", "model").locator(".order")).to_have_text("2")
    grip(board, "batch", "model").click(button="right")
    board.get_by_role("menuitem", name="Make model the major axis").click()
    expect(board.locator(".layout")).to_have_text("batch:model+data")


def test_a_dimension_is_renamed_from_its_menu(board):
    grip(board, "hidden").focus()
    board.keyboard.press("m")
    board.get_by_role("menuitem", name="Rename…").click()
    board.get_by_label("New name").fill("d_ff")
    board.keyboard.press("Enter")
    expect(grip(board, "d_ff")).to_be_visible()


def test_undo_and_redo_by_button_and_by_key(board):
    drag(board, "hidden", "model")
    board.locator("[data-verb=undo]").click()
    expect(board.locator(".layout")).to_have_text("batch:data")
    board.locator("[data-verb=redo]").click()
    expect(board.locator(".layout")).to_have_text("batch:data; hidden:model")
    board.keyboard.press("Control+z")
    expect(board.locator(".layout")).to_have_text("batch:data")
    expect(board.locator("[data-verb=undo]")).to_be_disabled()


def test_the_mesh_is_edited_where_it_stands(board):
    board.get_by_label("size of mesh axis data").fill("8")
    board.keyboard.press("Enter")
    expect(board.locator(".mesh")).to_have_text("data:8 × model:2")
    board.get_by_label("size of mesh axis data").fill("3")
    board.keyboard.press("Enter")
    expect(zone(board, "data").get_by_role("alert")).to_contain_text("16 % 3 = 1")
    expect(board.get_by_label("size of mesh axis data")).to_have_value("8")
    board.get_by_role("button", name="Add").click()
    expect(board.locator(".mesh")).to_have_text("data:8 × model:2 × pipe:2")
    board.get_by_label("Menu of mesh axis model").click()
    board.get_by_role("menuitem", name="Remove axis").click()
    expect(board.locator(".mesh")).to_have_text("data:8 × pipe:2")


def test_tabs_show_communication_values_and_notes(board):
    drag(board, "hidden", "model")
    open_tab(board, "communication")
    expect(board.locator(".block").nth(1)).to_contain_text("all-reduce")
    open_tab(board, "values")
    board.get_by_label("Search intermediate values").fill("second dot_general")
    expect(board.locator(".tables .path", has_text="first")).to_have_count(0)
    expect(board.locator(".tables .path", has_text="second").first).to_be_visible()
    open_tab(board, "memory")
    expect(board.locator(".tables")).to_contain_text("peak of the step")


def test_a_note_is_mended_by_its_button(board):
    open_tab(board, "notes")
    board.locator(".tables .btn").first.click()
    settled(board)
    expect(board.locator(".layout")).not_to_have_text("batch:data")


def test_a_run_shows_progress_and_then_the_result(board, stage):
    board.get_by_label("steps to run").fill("30")
    board.get_by_role("button", name="Run", exact=True).click()
    expect(board.locator(".run .stage")).to_contain_text("of 30")
    expect(board.locator('[data-curve="loss"] polyline')).to_have_attribute("points", re.compile(r"\d+,\d+ "))
    expect(board.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    board.locator(".run[data-phase=done]").wait_for()
    expect(board.locator(".run .facts")).to_contain_text("3 of 3")
    expect(board.locator(".run .facts")).to_contain_text("predicted step")
    expect(board.locator(".results")).to_contain_text("equal")
    expect(figure(board, "measured")).to_be_visible()
    open_tab(board, "compared")
    expect(board.get_by_text("Collectives, payload per device and step", exact=True).and_(board.locator(":visible"))).to_have_count(1)
    assert [steps for _, steps in stage.runner.started] == [30]


def test_a_board_can_be_edited_while_a_plan_runs(board, stage):
    stage.runner = ScriptedRunner(pause=0.05)
    board.get_by_role("button", name="Run", exact=True).click()
    drag(board, "hidden", "model")
    expect(board.locator(".layout")).to_have_text("batch:data; hidden:model")
    board.locator(".run[data-phase=done]").wait_for()
    expect(figure(board, "measured")).to_contain_text("before the last edit")


def test_a_run_is_cancelled(board, stage):
    stage.runner = ScriptedRunner(pause=0.2)
    board.get_by_role("button", name="Run", exact=True).click()
    board.get_by_role("button", name="Cancel", exact=True).click()
    expect(board.locator(".run .message")).to_have_text("Cancelled.")
    expect(board.get_by_role("button", name="Run", exact=True)).to_be_enabled()


def test_two_visitors_press_run_and_the_second_waits_for_its_turn(board, server, stage, context):
    scripted = ScriptedRunner(pause=0.5)
    stage.runner = QueuedRunner(scripted, JobQueue(runs=1))
    other = context.new_page()
    other.goto(server[0])
    other.locator(".wb .chip").first.wait_for()
    board.get_by_role("button", name="Run", exact=True).click()
    board.locator(".run[data-phase=running]").wait_for()
    other.get_by_role("button", name="Run", exact=True).click()
    expect(other.locator(".run .stage")).to_have_text("waiting: 1 job ahead")
    expect(other.locator(".run .progress")).to_be_hidden()
    expect(other.get_by_role("button", name="Cancel", exact=True)).to_be_visible()
    board.get_by_role("button", name="Cancel", exact=True).click()
    expect(other.locator(".run .stage")).to_contain_text(re.compile(r"step \d+ of 20"))
    expect(other.locator(".run .progress")).to_be_visible()
    assert len(scripted.started) == 2


def test_a_run_that_fails_says_why(board, stage):
    stage.runner = ScriptedRunner(message="The device ran out of memory.")
    board.get_by_role("button", name="Run", exact=True).click()
    expect(board.locator(".run .message")).to_have_text("The device ran out of memory.")


def test_disagreements_are_listed(board, stage):
    stage.runner = ScriptedRunner(wrong=1)
    board.get_by_role("button", name="Run", exact=True).click()
    expect(board.locator(".results")).to_contain_text("Shards that differ from the plan")
    expect(board.locator(".run .facts .bad")).to_have_text("2 of 3")


def test_two_visitors_do_not_disturb_each_other(board, server, context):
    other = context.new_page()
    other.goto(server[0])
    other.locator(".wb .chip").first.wait_for()
    drag(board, "hidden", "model")
    expect(other.locator(".layout")).to_have_text("batch:data")


def test_a_page_that_cannot_be_made_says_why(guarded, server, stage, program):
    stage.make = lambda: Plan(program, "data:4", "hidden:data")
    guarded.goto(server[0])
    expect(guarded.get_by_role("alert").first).to_contain_text("30 % 4 = 2")
    with pytest.raises(LayoutError):
        stage.make()


def test_a_crash_of_the_page_is_a_message(guarded, server, stage):
    stage.make = lambda: 1 / 0
    guarded.goto(server[0])
    expect(guarded.get_by_role("alert").first).to_contain_text("ZeroDivisionError")


def test_a_server_that_goes_away_is_told(guarded, program):
    url = f"http://127.0.0.1:{(port := free_port())}/"
    running = serve(Plan(program, "data:4 model:2"), port=port, open_browser=False, runner=ScriptedRunner(), threaded=True)
    wait_for(f"{url}liveness")
    guarded.goto(url)
    guarded.locator(".wb .chip").first.wait_for()
    expect(guarded.locator("#lost")).to_be_hidden()
    running.stop()
    expect(guarded.locator("#lost")).to_be_visible()


def test_a_touch_drags_too(browser, server, stage):
    context = browser.new_context(has_touch=True, viewport={"width": 900, "height": 900})
    page = context.new_page()
    page.goto(server[0])
    page.locator(".wb .chip").first.wait_for()
    session = context.new_cdp_session(page)
    x, y = centre(grip(page, "hidden"))
    to_x, to_y = centre(zone(page, "model"))
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for part in (0.3, 0.6, 1.0):
        point = {"x": x + part * (to_x - x), "y": y + part * (to_y - y)}
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(page.locator(".layout")).to_have_text("batch:data; hidden:model")
    context.close()


def test_the_page_follows_the_colour_scheme(browser, server, stage):
    page = browser.new_page(color_scheme="dark")
    page.goto(server[0])
    expect(page.locator(".wb[data-theme=dark]")).to_be_visible()
    page.emulate_media(color_scheme="light")
    expect(page.locator(".wb[data-theme=light]")).to_be_visible()
    page.close()
