"""The start panel of a served page: from nothing to a plan that fits in three actions; everybody can use it, at both widths."""

import json

import pytest
from playwright.sync_api import expect

from tests.app.browser.test_accessibility import AUDIT, findings_in_both
from tests.app.browser.test_page import settled
from tests.support.scripted import ScriptedRunner
from tests.support.servers import free_port, wait_for
from workbench.app.page.serve import serve
from workbench.public_plan import Plan

ANSWERED = {"timeout": 60_000}  # a busy machine plans a layout in seconds


@pytest.fixture(scope="module")
def served(program, tmp_path_factory):
    """A page that begins with the start panel, and lists the functions of a folder."""
    folder = tmp_path_factory.mktemp("folder")
    (folder / "start_mine.py").write_text("def loss(p, b): ...\n\n\ndef program() -> 'Program': ...\n")
    port = free_port()
    plan = Plan(program, "data:4 model:2", "batch:data")
    running = serve(plan, port=port, open_browser=False, runner=ScriptedRunner(), start=True, folder=folder, threaded=True)
    wait_for(f"http://127.0.0.1:{port}/liveness")
    yield f"http://127.0.0.1:{port}/"
    running.stop()


@pytest.fixture
def panel(guarded, served):
    guarded.goto(served)
    guarded.locator(".start .modelcard").first.wait_for()
    return guarded


def answered(page):
    headline = page.locator(".start[data-waiting=false] .headline")
    headline.wait_for(**ANSWERED)
    return headline


def test_whether_llama_3_8b_fits_on_8_h100_and_what_is_fastest_takes_three_actions(panel):
    panel.get_by_role("button", name="llama3-8b decoder 8.03B parameters").click()
    panel.get_by_role("button", name="8 H100", exact=True).click()
    expect(answered(panel)).to_contain_text("llama3-8b fits on 8 H100")
    panel.get_by_role("button", name="Fastest").click()
    panel.locator(".wb .chip").first.wait_for(**ANSWERED)
    expect(panel.locator(".start")).to_be_hidden()
    expect(panel.locator("h1", has_text="llama3-8b on 8 H100")).to_be_visible()
    expect(panel.locator(".figures")).to_contain_text("on 8 H100")
    panel.get_by_role("button", name="New…").click()
    expect(panel.locator(".start .headline")).to_contain_text("llama3-8b fits")
    panel.get_by_role("button", name="Go to the board").click()
    expect(panel.locator(".start")).to_be_hidden()


def test_keys_alone_choose_a_model_and_machines(panel):
    expect(panel.locator("[data-focus=start-search]")).to_be_focused()
    panel.keyboard.type("unheard of")
    expect(panel.locator(".start .none")).to_contain_text("Not in the zoo. Drop its config.json below")
    panel.keyboard.press("Control+a")
    panel.keyboard.type("two_layer")
    panel.keyboard.press("Enter")
    expect(panel.locator("[data-focus=start-on]")).to_be_focused()
    panel.keyboard.type("8 H1000")
    panel.keyboard.press("Enter")
    expect(panel.locator(".start .problem")).to_contain_text("did you mean H100?")
    panel.keyboard.press("Control+a")
    panel.keyboard.type("8 H100")
    panel.keyboard.press("Enter")
    expect(answered(panel)).to_have_text("two_layer fits on 8 H100; 1 device is enough.")


def test_a_config_is_dropped_as_a_file(panel):
    config = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "vocab_size": 1000}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 512}
    content = {"name": "config.json", "mimeType": "application/json", "buffer": json.dumps({**config, "_name_or_path": "me/mine"}).encode()}
    panel.locator("[data-focus=start-picker]").set_input_files(files=[content])
    expect(panel.locator(".chosen-model b")).to_have_text("mine")


def test_a_slider_changes_the_batch_of_the_model_on_the_board(panel):
    panel.get_by_role("button", name="Go to the board").click()
    settled(panel)  # a strip that is drawn anew loses a key
    slider = panel.get_by_label("batch, slider")
    expect(slider).to_have_attribute("aria-valuetext", "16")
    slider.press("ArrowRight")
    expect(panel.locator('.chip[data-chip="batch@data"]')).to_contain_text("32 → 8", **ANSWERED)
    settled(panel)
    expect(panel.locator('.modelstrip [data-focus="size batch"]')).to_have_value("32")
    panel.locator('.modelstrip [data-focus="size batch"]').fill("3")
    panel.keyboard.press("Enter")
    expect(panel.locator(".modelstrip [role=alert]")).to_contain_text("3 % 4 = 3", **ANSWERED)


@AUDIT
@pytest.mark.parametrize("width", [900, 1440])
def test_everybody_can_use_the_panel_and_the_strip_at(panel, width):
    panel.set_viewport_size({"width": width, "height": 900})
    panel.locator(".functions summary").last.click()
    panel.locator(".lessons summary").click()
    assert findings_in_both(panel) == {}
    panel.get_by_role("button", name="two_layer", exact=False).click()
    panel.get_by_role("button", name="8 H100", exact=True).click()
    answered(panel)
    assert findings_in_both(panel) == {}
    overflow = panel.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0
    panel.get_by_role("button", name="Fastest").click()
    panel.locator(".modelstrip").wait_for(**ANSWERED)
    panel.get_by_role("button", name="All sizes").click()
    assert findings_in_both(panel) == {}
