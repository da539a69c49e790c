"""What a person does with plans over time: back and forth, branches, two plans side by side, files, links."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.app.browser.conftest import open_board
from tests.app.browser.test_accessibility import AUDIT, findings_in_both
from tests.app.browser.test_page import drag, grip, settled, zone
from tests.support.importable import regression
from workbench.documents import ALL_EXPORTS, dump_plan, load_plan
from workbench.public_plan import Plan


def tool(page, verb: str):
    return page.locator(f".tools [data-verb={verb}]")


def plan(page, number: int):
    return page.locator(".plan", has=page.locator(f'.go[data-plan="{number}"]'))


@pytest.fixture
def grown(board):
    """start - hidden → model; start - io → model, and the last one is present; the history is open."""
    drag(board, "hidden", "model")
    tool(board, "undo").click()
    settled(board)
    drag(board, "io", "model")
    tool(board, "history").click()
    board.locator(".history").wait_for()
    return board


def test_an_edit_after_an_undo_begins_a_branch_and_one_goes_back_to_any_plan(grown):
    expect(tool(grown, "history")).to_have_text("History3")
    expect(grown.locator(".plan .edit")).to_have_text(["io → model", "hidden → model", "start"])
    expect(plan(grown, 2)).to_have_class(re.compile("here"))
    expect(grown.locator(".graph circle")).to_have_count(3)
    plan(grown, 1).locator(".go").click()
    expect(grown.locator(".layout")).to_have_text("batch:data; hidden:model")
    expect(plan(grown, 1).locator(".go")).to_have_attribute("aria-current", "step")
    grown.keyboard.press("Control+z")
    expect(grown.locator(".layout")).to_have_text("batch:data")
    grown.keyboard.press("Control+Shift+z")
    expect(grown.locator(".layout")).to_have_text("batch:data; hidden:model")
    expect(tool(grown, "redo")).to_be_disabled()
    expect(grown.locator(".plan")).to_have_count(3)


def test_a_plan_is_named_from_its_menu_and_pinned_and_keeps_both(grown):
    plan(grown, 1).get_by_label("Menu of plan 1").click()
    grown.get_by_role("menuitem", name="Name…").click()
    grown.get_by_role("textbox", name="Name of this plan").fill("as in Megatron")
    grown.keyboard.press("Enter")
    expect(plan(grown, 1).locator("b")).to_have_text("as in Megatron")
    plan(grown, 1).get_by_label("Pin plan 1").click()
    expect(plan(grown, 1).get_by_label("Pin plan 1")).to_have_attribute("aria-pressed", "true")
    tool(grown, "history").click()
    expect(grown.locator(".history")).to_be_hidden()
    tool(grown, "history").click()
    expect(plan(grown, 1).locator("b")).to_have_text("as in Megatron")


def test_two_plans_stand_side_by_side_and_the_present_one_as_it_changes(grown):
    plan(grown, 1).get_by_label("Compare plan 1").click()
    compared = grown.locator(".compared")
    expect(compared.locator(".side b")).to_have_text(["hidden → model", "io → model"])
    changes = compared.locator(".block").first.locator("tbody tr")
    expect(changes).to_have_count(2)
    expect(changes.filter(has_text="hidden").locator(".tag")).to_have_text("model")
    expect(changes.filter(has_text="hidden")).to_contain_text("whole")
    expect(compared.locator("tr", has_text="peak memory").locator(".pair")).to_be_visible()
    drag(grown, "io", "", source="model")
    expect(compared.locator(".side b").nth(1)).to_have_text("io → whole")
    expect(changes).to_have_count(1)
    compared.get_by_role("button", name="Swap").click()
    expect(compared.locator(".side b").nth(1)).to_have_text("hidden → model")
    compared.get_by_label("Stop comparing").click()
    expect(compared).to_be_hidden()


def test_the_keyboard_alone_walks_pins_compares_and_goes(grown):
    plan(grown, 2).locator(".go").focus()
    grown.keyboard.press("ArrowDown")
    expect(plan(grown, 1).locator(".go")).to_be_focused()
    grown.keyboard.press("p")
    expect(plan(grown, 1).get_by_label("Pin plan 1")).to_have_attribute("aria-pressed", "true")
    expect(plan(grown, 1).locator(".go")).to_be_focused()
    grown.keyboard.press("c")
    expect(grown.locator(".compared")).to_be_visible()
    grown.keyboard.press("ArrowDown")
    grown.keyboard.press("Enter")
    expect(grown.locator(".layout")).to_have_text("batch:data")
    expect(plan(grown, 0).locator(".go")).to_be_focused()


def test_a_plan_is_saved_as_a_download_and_opened_again(board, tmp_path):
    drag(board, "hidden", "model")
    with board.expect_download() as saved:
        tool(board, "save").click()
    path = tmp_path / saved.value.suggested_filename
    saved.value.save_as(path)
    assert path.name == "two-layer.plan.json"
    assert str(load_plan(path).layout) == "batch:data; hidden:model"
    drag(board, "hidden", "", source="model")
    board.get_by_label("plan file", exact=True).set_input_files(path)
    expect(board.locator(".layout")).to_have_text("batch:data; hidden:model")
    expect(board.locator(".told")).to_contain_text("Opened two-layer.plan.json")
    tool(board, "undo").click()
    expect(board.locator(".layout")).to_have_text("batch:data")


def test_a_save_is_downloaded_once_though_the_board_is_drawn_again(board):
    downloads = []
    board.on("download", lambda each: downloads.append(each))  # noqa: PLW0108 - Playwright takes no built-in
    with board.expect_download():
        tool(board, "save").click()
    board.get_by_role("tab", name="Memory").click()
    drag(board, "hidden", "model")
    assert len(downloads) == 1
    for _ in range(2):
        with board.expect_download():
            board.keyboard.press("Control+s")
    assert len(downloads) == 3


NO_PLANS = (
    ("analysis.ipynb", b'{"nbformat": 4, "cells": []}', "is JSON, but not a plan document"),
    ("broken.plan.json", b'{"format": "sharding-workbench.plan", "ver', "is not JSON"),
    ("photo.png", b"\x89PNG\r\n\x1a\n\xff\xff", "is not JSON"),
    ("big.json", b" " * (2 << 20), "too large for a plan document"),
)


def test_a_file_that_is_no_plan_is_told_and_nothing_is_lost(board):
    drag(board, "hidden", "model")
    told = board.locator(".told[role=alert]")
    for name, content, said in NO_PLANS:
        board.get_by_label("plan file", exact=True).set_input_files({"name": name, "mimeType": "application/json", "buffer": content})
        expect(told).to_contain_text(name)
        expect(told).to_contain_text(said)
        expect(told.locator("li").first).to_be_visible()
        expect(board.locator(".layout")).to_have_text("batch:data; hidden:model")
        told.get_by_label("Dismiss").click()
        expect(told).to_have_count(0)
    tool(board, "undo").click()
    expect(board.locator(".layout")).to_have_text("batch:data")


def test_a_plan_whose_program_is_missing_says_how_to_get_it_and_a_dropped_file_is_opened(board, stage):
    text = dump_plan(stage.make()).replace('"two_layer"', '"my_models.big:build"')
    drop_file(board, "colleague.plan.json", text)
    told = board.locator(".told[role=alert]")
    expect(told).to_contain_text("not allowed here: it was not opened, and nothing was imported")
    expect(told.locator("li")).to_contain_text(["--allow my_models", "load it", "WORKBENCH_ALLOW=my_models"])
    expect(board.locator(".layout")).to_have_text("batch:data")
    drop_file(board, "mine.plan.json", dump_plan(stage.make().updated(layout="hidden:model")))
    expect(board.locator(".layout")).to_have_text("hidden:model")


def drop_file(page, name: str, text: str) -> None:
    """As the browser tells of a file that is dragged in from the desktop."""
    data = page.evaluate_handle(
        "([name, text]) => { const data = new DataTransfer(); data.items.add(new File([text], name)); return data; }", [name, text]
    )
    page.locator(".wb .card").dispatch_event("dragover", {"dataTransfer": data})
    page.locator(".wb .card").dispatch_event("drop", {"dataTransfer": data})
    settled(page)


def test_exports_are_shown_copied_and_downloaded(board, stage, context, tmp_path):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    tool(board, "export").click()
    for form in ALL_EXPORTS:
        board.locator(f"[data-form={form.key}]").click()
        expect(board.locator(f"[data-form={form.key}]")).to_have_attribute("aria-pressed", "true")
        expect(board.locator(".sheet .code")).to_have_text(form.write(stage.make()))
    board.locator("[data-form=specs]").click()
    settled(board)
    grip(board, "hidden").click()
    zone(board, "model").click(position={"x": 150, "y": 90})
    expect(board.locator(".sheet .code")).to_contain_text('"w": P(None, "model")')
    board.get_by_role("button", name="Copy", exact=True).click()
    expect(board.locator("[role=status].sr")).to_have_text("Copied")  # the button says so for a moment only
    assert 'P(None, "model")' in board.evaluate("navigator.clipboard.readText()")
    with board.expect_download() as saved:
        board.get_by_role("button", name="Download two_layer_specs.py").click()
    saved.value.save_as(tmp_path / "specs.py")
    assert "def partition_specs" in Path(tmp_path / "specs.py").read_text(encoding="utf-8")
    board.locator(".sheet").get_by_label("Close").click()
    expect(board.locator(".sheet")).to_be_hidden()
    tool(board, "export").click()
    expect(board.locator(".sheet .code")).to_be_focused()
    board.keyboard.press("Escape")
    expect(board.locator(".sheet")).to_be_hidden()


def test_a_link_opens_the_same_plan(board, context):
    drag(board, "hidden", "model")
    tool(board, "link").click()
    address = board.get_by_label("link to this plan")
    expect(address).to_be_focused()
    other = context.new_page()
    other.goto(address.input_value())
    expect(other.locator(".layout")).to_have_text("batch:data; hidden:model")
    expect(grip(other, "hidden", "model")).to_be_visible()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda link: link[:-20], "ask for the link again"),
        (lambda _: "?plan=", "has no plan"),
        (lambda _: "?plan=%3Cscript%3Ealert(1)%3C/script%3E", "has no plan"),
        (lambda _: f"?plan=p1.{'A' * 20_000}", "a plan has at most 16,000"),
    ],
    ids=["cut off", "empty", "a script", "too long"],
)
def test_a_broken_link_is_a_message_with_a_way_out(guarded, server, stage, spoil, said):
    from workbench.documents import link_text

    guarded.goto(server[0] + spoil(f"?plan={link_text(stage.make())}"))
    failure = guarded.get_by_role("alert").first
    expect(failure).to_contain_text("This link could not be opened")
    expect(failure).to_contain_text(said)
    guarded.get_by_role("link", name="Open the workbench without it").click()
    expect(guarded.locator(".layout")).to_have_text("batch:data")


def test_a_link_to_a_program_of_somebody_else_imports_nothing(guarded, server, stage):
    import base64
    import zlib

    text = json.dumps({**json.loads(dump_plan(stage.make())), "program": {"target": "antigravity:fly"}})
    guarded.goto(f"{server[0]}?plan=p1.{base64.urlsafe_b64encode(zlib.compress(text.encode())).decode()}")
    expect(guarded.get_by_role("alert").first).to_contain_text("may only name models of the zoo")


def test_a_plan_that_cannot_be_saved_says_why_and_how_to_mend_it(guarded, server, stage):
    stage.make = lambda: Plan(regression(), "data:4 model:2", "batch:data")  # a function of this process: it has no reference
    open_board(guarded, server)
    for verb in ("save", "link"):
        tool(guarded, verb).click()
        expect(guarded.locator(".told[role=alert]")).to_contain_text("this program has no reference")
        guarded.locator(".told").get_by_label("Dismiss").click()
        expect(guarded.locator(".told")).to_have_count(0)
    tool(guarded, "export").click()
    expect(guarded.locator(".sheet").get_by_role("alert")).to_contain_text("a script could not build it")
    guarded.locator("[data-form=specs]").click()
    expect(guarded.locator(".sheet .code")).to_contain_text("def partition_specs")
    guarded.locator(".sheet").get_by_label("Close").click()
    settled(guarded)
    drag(guarded, "d_ff", "model")
    expect(guarded.locator(".layout")).to_have_text("batch:data; d_ff:model")


@AUDIT
def test_history_comparison_sheets_and_errors_can_be_used_by_everyone(grown):
    plan(grown, 1).get_by_label("Pin plan 1").click()
    plan(grown, 1).get_by_label("Compare plan 1").click()
    grown.locator(".compared summary").click()
    assert findings_in_both(grown) == {}, "two plans side by side"
    plan(grown, 1).get_by_label("Menu of plan 1").click()
    assert findings_in_both(grown) == {}, "menu of a plan"
    grown.keyboard.press("Escape")
    grown.get_by_label("plan file", exact=True).set_input_files({"name": "a.json", "mimeType": "application/json", "buffer": b"{"})
    grown.locator(".told").wait_for()
    assert findings_in_both(grown) == {}, "an error of the head"


def test_history_and_sheets_stay_inside_the_card(grown):
    plan(grown, 1).get_by_label("Compare plan 1").click()
    tool(grown, "export").click()
    grown.locator(".compared").wait_for()
    grown.locator(".sheet").wait_for()
    for width in (560, 1280, 1920):
        grown.set_viewport_size({"width": width, "height": 900})
        assert grown.evaluate("document.documentElement.scrollWidth") <= width
        card = grown.locator(".wb .card").bounding_box()
        for part in (".history", ".compared", ".tree", ".sheet"):
            box = grown.locator(part).bounding_box()
            assert card["x"] <= box["x"], (part, width)
            assert box["x"] + box["width"] <= card["x"] + card["width"] + 1, (part, width)
