"""An exercise on the page: its goals tick under the hand, an answer is checked, and a person without a mouse or a screen can do it, too."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.browser.test_accessibility import AUDIT, findings_in_both
from tests.support.scripted import ScriptedRunner
from tests.support.servers import free_port, wait_for
from workbench.app.page.serve import serve
from workbench.exercises import Exercise

ONE = Exercise.load(Path(__file__).parents[3] / "lessons" / "one_product" / "exercise.json")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    port = free_port()
    running = serve(ONE.first_plan, port=port, open_browser=False, runner=ScriptedRunner(), threaded=True, exercise=ONE)
    wait_for(f"http://127.0.0.1:{port}/liveness")
    yield f"http://127.0.0.1:{port}/"
    running.stop()


@pytest.fixture(scope="module")
def lessons(tmp_path_factory) -> Iterator[str]:
    port, folder = free_port(), tmp_path_factory.mktemp("folder")
    running = serve(ONE.first_plan, port=port, open_browser=False, runner=ScriptedRunner(), threaded=True, start=True, folder=folder)
    wait_for(f"http://127.0.0.1:{port}/liveness")
    yield f"http://127.0.0.1:{port}/"
    running.stop()


@pytest.fixture
def asked(guarded: Page, address: str) -> Page:
    guarded.goto(address)
    guarded.locator(".exercise .step").first.wait_for()
    return guarded


def met(page: Page) -> list[str]:
    return [each.get_attribute("data-met") or "" for each in page.locator(".exercise .goal").all()]


def test_goals_tick_while_a_dimension_is_dropped_and_the_answer_is_right(asked):
    asked.get_by_role("button", name="Question 2, share").click()
    expect(asked.locator(".exercise .goal")).to_have_count(3)
    assert met(asked) == ["false", "true", "false"]
    asked.locator(".chip [data-dim=K]").first.focus()
    for key in ("Space", "ArrowRight", "Space"):
        asked.keyboard.press(key)
    expect(asked.locator(".exercise .goal[data-met=true]")).to_have_count(3)
    asked.get_by_role("button", name="Check").click()
    expect(asked.locator(".exercise .verdict")).to_contain_text("Right.")
    expect(asked.get_by_role("button", name="Question 2, share, answered")).to_have_text("✓")
    asked.get_by_role("button", name="Restart").click()
    expect(asked.locator(".head .layout")).to_have_text("everything replicated")
    expect(asked.locator(".exercise .verdict")).to_contain_text("of an earlier plan")


def test_a_choice_and_a_number_are_answered_by_the_keyboard_alone(asked):
    asked.locator(".exercise .choice input").first.focus()
    asked.keyboard.press("Space")
    asked.keyboard.press("Enter")
    expect(asked.locator(".exercise .verdict")).to_contain_text("the parts have to be added up")
    expect(asked.locator(".exercise .choice input").first).to_be_checked()
    asked.get_by_role("button", name="Question 3, sent").press("Enter")
    field = asked.get_by_role("textbox", name="your answer")
    field.fill("4 MiB")
    field.press("Enter")
    expect(asked.locator(".exercise .verdict")).to_contain_text("That is the total for both devices together.")
    expect(field).to_have_value("4 MiB")
    field.fill("2 MiB")
    field.press("Enter")
    expect(asked.locator(".exercise .verdict.right")).to_contain_text("Right. try 2")


@AUDIT
def test_everybody_can_use_it(asked):
    asked.get_by_role("button", name="Question 2, share").click()
    asked.get_by_role("button", name="Check").click()
    asked.locator(".exercise .verdict").wait_for()
    assert findings_in_both(asked) == {}


def test_on_a_phone_nothing_is_past_its_card(asked):
    asked.set_viewport_size({"width": 390, "height": 800})
    asked.get_by_role("button", name="Question 2, share").click()
    asked.get_by_role("button", name="Check").click()
    asked.locator(".exercise .verdict").wait_for()
    assert asked.locator(".exercise").evaluate("e => e.scrollWidth <= e.clientWidth")
    asked.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.parametrize("width", [900, 1440])
def test_a_lesson_has_its_text_beside_the_board_and_leads_on_by_the_keyboard_alone(guarded, lessons, width):
    guarded.set_viewport_size({"width": width, "height": 900})
    guarded.goto(f"{lessons}?lesson=one_product")
    guarded.locator(".lesson .image svg, .lesson .told").first.wait_for()
    assert findings_in_both(guarded) == {}
    assert guarded.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    beside = guarded.locator(".lesson").bounding_box()["x"] + guarded.locator(".lesson").bounding_box()["width"]
    assert (beside < guarded.locator(".card").bounding_box()["x"]) == (width == 1440)
    guarded.get_by_role("button", name="Question 3").first.press("Enter")
    expect(guarded.locator(".figures")).to_be_hidden()
    guarded.get_by_role("textbox", name="your answer").fill("2 bananas")
    guarded.keyboard.press("Enter")
    expect(guarded.locator(".exercise .refusal")).to_contain_text("is not an amount of bytes")
    guarded.get_by_role("textbox", name="your answer").fill("2 MiB")
    guarded.keyboard.press("Enter")
    expect(guarded.locator(".exercise .verdict.right")).to_contain_text("try 1")
    expect(guarded.locator(".figures")).to_be_visible()
    guarded.get_by_role("button", name="Next: question 4").press("Enter")
    expect(guarded.get_by_role("button", name="Question 4").first).to_have_attribute("aria-current", "step")
    guarded.goto(f"{lessons}?lessons")
    expect(guarded.locator(".lessons li").first).to_contain_text("1 of 4")
    assert findings_in_both(guarded) == {}
    guarded.get_by_text("Reset progress").press("Enter")
    guarded.get_by_role("button", name="Delete all answers").press("Enter")
    expect(guarded.locator(".lessons li").first).to_contain_text("4 questions")
