"""Find on the page: plans stream as rows, one is previewed, clicked, so that the board has it, and undone; why it, against any; clashes."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.app.browser.conftest import open_board
from tests.support import charts
from tests.support.scripted import ScriptedRunner
from workbench.core.program import Program
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan


@pytest.fixture
def finding(guarded, server, stage) -> Page:
    """The page over a Transformer of one layer, its tab *Find* open. A search of it takes minutes: a test stops it."""
    return open_find(guarded, server, stage, build("gpt", layers=1))


@pytest.fixture
def quick(guarded, server, stage, program) -> Page:
    """The same page over two products, all plans of which are found within a second."""
    return open_find(guarded, server, stage, program)


def open_find(page: Page, server, stage, program: Program) -> Page:
    stage.make = lambda: Plan(program, "data:4 model:2", "batch:data", hardware=parse_hardware("TPU v5e 2x4"))
    open_board(page, server)
    page.locator("[data-verb=open-find]").click()
    page.locator(".search-form").wait_for()
    return page


def front(page: Page) -> Locator:
    """The chart of the front, drawn."""
    return page.locator(".chart[data-drawn=true]").first


def rows(page: Page) -> Locator:
    """The rows of the plans but the present one."""
    return page.locator("tr", has=page.get_by_role("button", name="Apply", exact=True))


def present(page: Page) -> Locator:
    return page.locator("tr", has=page.locator("td[data-label=changes]", has_text="present plan"))


def chosen(page: Page) -> Locator:
    return page.locator(".found.card")


def phase(page: Page, *names: str):
    return page.locator(", ".join(f".search-form[data-phase={name}]" for name in names))


def search(page: Page, seconds: str = "60", **fields: str) -> None:
    page.locator(".options summary").click()
    for label, value in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(value)
    page.get_by_label("Time limit (s)").fill(seconds)
    page.locator(".sentence").get_by_role("button", name="Find", exact=True).click()


def finish(page: Page) -> None:
    """End the search once it has found two plans."""
    rows(page).nth(1).or_(phase(page, "done")).first.wait_for(timeout=60_000)
    stop = page.locator(".sentence").get_by_role("button", name="Stop", exact=True)
    stop.evaluate_all("(buttons) => buttons.forEach((button) => button.click())")  # at once: it goes when the search ends by itself
    phase(page, "done", "stopped").wait_for()


def test_one_press_finds_rows_a_row_previews_and_a_click_gives_the_board_its_plan_which_undo_takes_back(quick):
    expect(present(quick)).to_have_count(1)
    quick.locator(".sentence").get_by_role("button", name="Find", exact=True).click()
    expect(quick.locator(".search-form .present-plan")).to_contain_text("best found", timeout=180_000)  # in one tier
    finish(quick)
    expect(present(quick)).to_have_count(1)
    expect(quick.locator(".search-form .line")).to_contain_text("combinations")
    expect(quick.locator("[data-verb=open-find] .badge")).not_to_be_empty()
    row, preview = rows(quick).nth(1), quick.locator(".found:not(.card)")
    expect(preview).to_contain_text("Point at a plan")
    row.locator("td").nth(1).hover()  # and so out from under the tray
    quick.mouse.move(1, 1)
    before = row.bounding_box()
    row.locator("td").nth(1).hover()
    expect(preview).to_contain_text(row.locator("td[data-label=plan]").inner_text())
    expect(preview).to_contain_text("changes:")
    assert row.bounding_box() == before, "a preview moves no row from under the pointer"
    expect(quick.locator(".head .mesh")).to_have_text("data:4 × model:2")
    quick.mouse.move(1, 1)
    row.get_by_role("button", name="Apply").focus()
    expect(preview).to_contain_text(row.locator("td[data-label=plan]").inner_text())
    plan = row.locator("td[data-label=plan]").inner_text()
    row.locator("td").nth(1).click()
    expect(quick.locator("[data-verb=undo]")).to_have_attribute("title", f"Undo open the plan found: {plan}")
    expect(quick.locator(".head .mesh")).to_have_text(plan.split(",")[0].replace(" ", " × "))
    expect(present(quick).locator("td[data-label=plan]")).to_have_text(plan)
    quick.locator("[data-verb=undo]").click()
    expect(quick.locator(".head .mesh")).to_have_text("data:4 × model:2")


def test_a_point_of_the_front_is_taken_by_a_click(quick):
    search(quick, Stages="1")
    front(quick).wait_for()
    finish(quick)
    charts.click_for(
        charts.drawn(quick.locator(".picture").first),
        len(charts.column(front(quick), "opens")) - 1,
        quick.locator("[data-verb=undo][title^='Undo open the plan found']"),
    )


def test_why_this_one_shows_what_ifs_and_a_ledger_against_any_that_adds_up(quick):
    search(quick, Stages="1")
    finish(quick)
    rows(quick).first.get_by_role("button", name="Why").click()
    expect(quick.locator("h3", has_text="Alternatives")).to_be_visible()
    against = quick.locator(".against select")
    against.select_option(index=against.locator("option").count() - 1)
    ledger = quick.locator(".block", has=quick.locator("h3", has_text="Why this plan"))
    expect(ledger.locator("tbody tr").first).to_contain_text(against.locator("option").last.inner_text().split(": ")[-1])
    expect(chosen(quick).locator(".waiting")).to_have_count(0)
    chosen(quick).get_by_role("button", name="Close").click()
    expect(chosen(quick)).to_have_count(0)


def test_the_present_plan_says_why_not_and_its_choice_is_pinned(quick):
    search(quick, Stages="1")
    finish(quick)
    taken = rows(quick).nth(1).locator("td[data-label=plan]").inner_text()
    rows(quick).nth(1).locator("td").nth(1).click()
    expect(present(quick).locator("td[data-label=plan]")).to_have_text(taken)
    present(quick).get_by_role("button", name="Why").click()
    expect(quick.locator("h3", has_text="Why this plan")).to_be_visible()
    quick.get_by_role("button", name="Pin mesh").click()
    finish(quick)
    expect(quick.locator(".options summary")).to_have_text("Options (3 set)")
    for plan in quick.locator("td[data-label=plan]").all_inner_texts():
        assert plan.split(",")[0] == taken.split(",")[0], plan


def test_the_compilers_are_asked_about_the_chosen_plan_and_stopped_while_the_page_answers(quick, stage):
    stage.runner = ScriptedRunner(pause=6)  # a compilation takes minutes, until it is stopped
    search(quick, Stages="1", **{"Micro-batches": "1"})
    finish(quick)
    rows(quick).first.get_by_role("button", name="Why").click()
    card, said = chosen(quick), quick.locator(".block", has=quick.locator("h3", has_text="Compiler results"))
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


def test_pins_that_contradict_each_other_are_said_before_what_would_help_is_known(finding):
    finding.locator(".options summary").click()
    finding.get_by_label("Schedule", exact=True).select_option("zero_bubble")
    finding.locator(".options summary").click()
    search(finding, Stages="1")
    message = finding.locator(".search-form .says")
    expect(message).to_contain_text("No plan meets schedule zero_bubble and stage 1 together.")
    finding.get_by_role("button", name="Stop", exact=True).click()
    expect(finding.get_by_label("Stages", exact=True)).to_have_value("1")


def test_a_search_is_stopped_and_what_was_typed_stays(finding):
    search(finding, "600")
    front(finding).wait_for()
    finding.get_by_label("limit", exact=True).fill("3 GiB")
    finding.get_by_role("button", name="Stop", exact=True).click()
    phase(finding, "stopped").wait_for()
    expect(finding.get_by_label("limit", exact=True)).to_have_value("3 GiB")
    expect(finding.get_by_role("button", name="Find again")).to_be_enabled()
    expect(front(finding)).to_be_visible()


def test_a_clash_is_relaxed_by_a_button(quick):
    search(quick, limit="1 KiB")
    message = quick.locator(".search-form .says")
    expect(message).to_contain_text("No plan meets at most 1.00 KiB a device")
    message.get_by_role("button", name="Allow at most").click()
    front(quick).wait_for()


def test_hardware_and_its_price_are_typed_in_the_sentence_and_precision_is_an_option(quick):
    quick.get_by_label("on", exact=True).fill("8 H800, 2.5 $/h")
    quick.locator(".options summary").click()
    quick.get_by_label("Precision", exact=True).select_option(label="bfloat16")
    quick.locator(".options summary").click()
    search(quick, Stages="1")
    finish(quick)
    expect(quick.locator("th", has_text="1,000 steps")).to_be_visible()
    expect(quick.locator("td[data-label=plan]", has_text="precision bfloat16").first).to_be_visible()


def test_a_mistyped_form_says_what_is_wrong_under_itself(finding):
    finding.get_by_label("on", exact=True).fill("many")
    finding.keyboard.press("Enter")
    expect(finding.locator(".search-form .says")).to_contain_text("many is not a number of devices")
    expect(finding.get_by_label("on", exact=True)).to_have_value("many")


def test_the_table_of_the_front_with_prices_and_stages_fits_the_page(finding):
    finding.get_by_label("on", exact=True).fill("8 TPU v5p")
    search(finding, Stages="2")
    finish(finding)
    table = finding.locator("table", has=finding.locator("td[data-label=plan]"))
    expect(table.locator("th", has_text="1,000 steps")).to_be_visible()
    for width in (1280, 1100, 720):
        finding.set_viewport_size({"width": width, "height": 900})
        assert table.evaluate("e => e.offsetWidth <= e.closest('.scroll').clientWidth"), width
