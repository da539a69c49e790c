"""Find on the page: pressed, a point looked at, clicked, so that the board has its plan, and undone; why it, against any; and clashes."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support import charts
from tests.support.scripted import ScriptedRunner
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan


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


def front(page: Page) -> Locator:
    """The chart of the front, drawn."""
    return page.locator(".chart[data-drawn=true]").first


def walk_front(page: Page) -> Locator:
    """What is said of the last plan of the front, which the keyboard walks to first when it goes back."""
    front(page).locator(".plot").focus()
    page.keyboard.press("ArrowLeft")
    return front(page).locator(".tasktold")


def phase(page: Page, *names: str):
    return page.locator(", ".join(f".search-form[data-phase={name}]" for name in names))


def search(page: Page, seconds: str = "2", **fields: str) -> None:
    for label, value in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(value)
    page.get_by_label("Time limit (s)").fill(seconds)
    page.get_by_role("button", name="Find", exact=True).last.click()


def test_a_point_says_what_it_changes_and_clicked_gives_the_board_its_plan_which_undo_takes_back(finding):
    search(finding, "3")
    front(finding).wait_for()
    phase(finding, "done").wait_for()
    expect(finding.locator("[data-verb=open-find] .badge")).not_to_be_empty()
    expect(finding.locator(".search-form .present-plan")).to_contain_text("best found")
    tip = walk_front(finding)
    expect(tip).to_contain_text("step: ")
    expect(tip).to_contain_text("changes:")
    card = finding.locator(".found")
    charts.click_for(charts.drawn(finding.locator(".picture").first), len(charts.column(front(finding), "opens")) - 1, card)
    expect(card.locator(".name")).to_contain_text("on the board")
    mesh = card.locator(".name b").inner_text().split(",")[0]
    expect(finding.locator(".head .mesh")).to_have_text(mesh.replace(" ", " × "))
    title = f"Undo open the plan found: {card.locator('.name b').inner_text()}"
    expect(finding.locator("[data-verb=undo]")).to_have_attribute("title", title)
    expect(finding.locator("h3", has_text="start of the search")).to_be_visible()
    card.get_by_role("button", name="Undo").click()
    expect(finding.locator(".head .mesh")).to_have_text("data:4 × model:2")
    expect(card.get_by_role("button", name="Use this plan")).to_be_visible()
    expect(front(finding)).to_be_visible()


def test_why_this_one_shows_what_ifs_and_a_ledger_against_any_that_adds_up(finding):
    search(finding, Stages="1")
    phase(finding, "done").wait_for()
    finding.get_by_role("button", name="Preview", exact=True).first.click()
    finding.get_by_role("button", name="Why this one?").click()
    expect(finding.locator("h3", has_text="Alternatives")).to_be_visible()
    against = finding.locator(".against select")
    against.select_option(index=against.locator("option").count() - 1)
    ledger = finding.locator(".block", has=finding.locator("h3", has_text="Why this plan"))
    expect(ledger.locator("tbody tr").first).to_contain_text(against.locator("option").last.inner_text().split(": ")[-1])
    expect(finding.locator(".found .waiting")).to_have_count(0)


def test_the_compilers_are_asked_about_the_chosen_plan_and_stopped_while_the_page_answers(finding, stage):
    stage.runner = ScriptedRunner(pause=6)  # a compilation takes minutes, until it is stopped
    search(finding, Stages="1", **{"Micro-batches": "1"})
    phase(finding, "done").wait_for()
    finding.get_by_role("button", name="Preview", exact=True).first.click()
    card, said = finding.locator(".found"), finding.locator(".block", has=finding.locator("h3", has_text="Compiler results"))
    card.get_by_role("button", name="Verify with compilers").click()
    expect(card.locator(".waiting")).to_contain_text("Asking the compiler of TPU v5e 2x4")
    expect(said.locator("tbody tr").nth(1)).to_contain_text("partitioned")
    expect(said.locator("tbody tr").nth(2)).to_contain_text("…")
    card.get_by_role("button", name="Stop verifying").click()
    expect(said.locator("tbody tr").nth(2)).to_contain_text("Stopped before it answered.")
    stage.runner.pause = 0.0
    card.get_by_role("button", name="Verify with compilers").click()
    expect(said.locator("tbody tr").nth(2)).to_contain_text("XLA of a script")
    expect(said.locator("tbody tr").nth(2)).to_contain_text("+50%")
    expect(card.locator(".waiting")).to_have_count(0)


def test_pins_that_contradict_each_other_are_said_before_what_would_help_is_known(finding):
    finding.get_by_label("Schedule", exact=True).select_option("zero_bubble")
    search(finding, "5", Stages="1")
    message = finding.locator(".search-form .says")
    expect(message).to_contain_text("No plan meets schedule zero_bubble and stage 1 together.")
    finding.get_by_role("button", name="Stop", exact=True).click()
    expect(finding.get_by_label("Stages", exact=True)).to_have_value("1")


def test_a_search_is_stopped_and_what_was_typed_stays(finding):
    finding.get_by_label("Time limit (s)").fill("600")
    finding.get_by_role("button", name="Find", exact=True).last.click()
    front(finding).wait_for()
    finding.get_by_label("Memory limit").fill("3 GiB")
    finding.get_by_role("button", name="Stop", exact=True).click()
    phase(finding, "stopped").wait_for()
    expect(finding.get_by_label("Memory limit")).to_have_value("3 GiB")
    expect(finding.get_by_role("button", name="Find again")).to_be_enabled()
    expect(front(finding)).to_be_visible()


def test_a_clash_is_relaxed_by_a_button(finding):
    finding.get_by_label("Memory limit").fill("1 KiB")
    finding.get_by_label("Time limit (s)").fill("5")
    finding.get_by_role("button", name="Find", exact=True).last.click()
    message = finding.locator(".search-form .says")
    expect(message).to_contain_text("No plan meets at most 1.00 KiB a device")
    message.get_by_role("button", name="Allow at most").click()
    front(finding).wait_for()


def test_precision_and_a_price_are_chosen_in_the_form_and_stand_in_the_table(finding):
    finding.get_by_label("of", exact=True).select_option("H800")
    finding.get_by_label("Precision", exact=True).select_option(label="bfloat16")
    search(finding, Price_per_chip="2.5", Stages="1")
    phase(finding, "done").wait_for()
    table = finding.locator("table", has=finding.locator("td[data-label=pipeline]"))
    expect(table.locator("th", has_text="1,000 steps")).to_be_visible()
    expect(table.locator("td[data-label=remat]").first).to_contain_text("precision bfloat16")
    expect(finding.get_by_label("Price per chip")).to_have_value("2.5")
    expect(finding.get_by_label("Price per chip")).to_have_attribute("placeholder", "$/h")


def test_a_mistyped_form_says_what_is_wrong_under_itself(finding):
    finding.get_by_label("Devices", exact=True).fill("many")
    finding.keyboard.press("Enter")
    expect(finding.locator(".search-form .says")).to_contain_text("many is not a number of devices")
    expect(finding.get_by_label("Devices", exact=True)).to_have_value("many")


def test_the_table_of_the_front_with_prices_and_stages_fits_the_page(finding):
    finding.get_by_label("of", exact=True).select_option("TPU v5p")
    search(finding, "4", Stages="2")
    phase(finding, "done").wait_for()
    table = finding.locator("table", has=finding.locator("td[data-label=pipeline]"))
    expect(table.locator("th", has_text="1,000 steps")).to_be_visible()
    for width in (1280, 1100, 720):
        finding.set_viewport_size({"width": width, "height": 900})
        assert table.evaluate("e => e.offsetWidth <= e.closest('.scroll').clientWidth"), width
