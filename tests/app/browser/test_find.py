"""Find on the page: pressed, points seen, one clicked, its plan taken and taken back; stopped; and a clash relaxed by a button."""

import pytest
from playwright.sync_api import Page, expect

from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.plan.plan import Plan


@pytest.fixture(scope="module")
def gpt():
    return build("gpt", layers=2)


@pytest.fixture
def finding(guarded, server, stage, gpt) -> Page:
    """The page over a small Transformer, its tab *Find* open."""
    stage.make = lambda: Plan(gpt, "data:4 model:2", "batch:data", hardware=parse_hardware("TPU v5e 2x4"))
    guarded.goto(server[0])
    guarded.locator(".wb .chip").first.wait_for()
    guarded.locator("[data-verb=open-find]").click()
    guarded.locator(".search-form").wait_for()
    return guarded


def front(page: Page):
    return page.locator('.image circle[fill-opacity="0.001"]')


def phase(page: Page, *names: str):
    return page.locator(", ".join(f".search-form[data-phase={name}]" for name in names))


def test_find_is_pressed_a_point_clicked_its_plan_taken_and_taken_back(finding):
    finding.get_by_label("Seconds to search").fill("3")
    finding.get_by_role("button", name="Find", exact=True).last.click()
    front(finding).first.wait_for()
    phase(finding, "done").wait_for()
    expect(finding.locator("[role=tab][data-tab=find] .badge")).not_to_be_empty()
    front(finding).first.click()
    card = finding.locator(".found")
    expect(card.locator(".name b")).not_to_be_empty()
    mesh = card.locator(".name b").inner_text().split(",")[0]
    expect(finding.locator("h3", has_text="What it changes")).to_be_visible()
    card.get_by_role("button", name="Take this plan").click()
    expect(finding.locator(".head .mesh")).to_have_text(mesh.replace(" ", " × "))
    expect(finding.locator("[data-verb=undo]")).to_have_attribute(
        "title", f"Undo open the plan found: {card.locator('.name b').inner_text()}"
    )
    finding.locator("[data-verb=undo]").click()
    expect(finding.locator(".head .mesh")).to_have_text("data:4 × model:2")
    expect(front(finding).first).to_be_visible()


def test_why_this_one_shows_a_ledger_and_what_ifs(finding):
    finding.get_by_label("Seconds to search").fill("2")
    finding.get_by_role("button", name="Find", exact=True).last.click()
    phase(finding, "done").wait_for()
    front(finding).first.click()
    finding.get_by_role("button", name="Why this one?").click()
    expect(finding.locator("h3", has_text="What if instead")).to_be_visible()
    expect(finding.locator("h3", has_text="What it changes")).to_be_visible()


def test_a_search_is_stopped_and_what_was_typed_stays(finding):
    finding.get_by_label("Seconds to search").fill("600")
    finding.get_by_role("button", name="Find", exact=True).last.click()
    front(finding).first.wait_for()
    finding.get_by_label("Memory at most").fill("3 GiB")
    finding.get_by_role("button", name="Stop", exact=True).click()
    phase(finding, "stopped").wait_for()
    expect(finding.get_by_label("Memory at most")).to_have_value("3 GiB")
    expect(finding.get_by_role("button", name="Find again")).to_be_enabled()
    expect(front(finding).first).to_be_visible()


def test_a_clash_is_relaxed_by_a_button(finding):
    finding.get_by_label("Memory at most").fill("1 KiB")
    finding.get_by_label("Seconds to search").fill("5")
    finding.get_by_role("button", name="Find", exact=True).last.click()
    message = finding.locator(".search-form .says")
    expect(message).to_contain_text("No plan keeps at most 1.00 KiB a device")
    message.get_by_role("button", name="Allow at most").click()
    front(finding).first.wait_for()


def test_a_mistyped_form_says_what_is_wrong_under_itself(finding):
    finding.get_by_label("Devices", exact=True).fill("many")
    finding.keyboard.press("Enter")
    expect(finding.locator(".search-form .says")).to_contain_text("many is not a number of devices")
    expect(finding.get_by_label("Devices", exact=True)).to_have_value("many")
