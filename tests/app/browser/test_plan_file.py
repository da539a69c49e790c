"""A served page with a plan file: opened, saved, watched; and what it may not reach."""

import re

import pytest
from playwright.sync_api import expect

from tests.app.browser.test_page import drag, grip
from tests.support.scripted import ScriptedRunner
from tests.support.servers import free_port, wait_for
from workbench.app.page.serve import serve
from workbench.documents import load_plan
from workbench.public_plan import Plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory, program):
    """A server over a folder: its address, and the folder."""
    root, port = tmp_path_factory.mktemp("plans"), free_port()
    running = serve(Plan(program, "data:8"), port=port, open_browser=False, root=root, runner=ScriptedRunner(), threaded=True)
    wait_for(f"http://127.0.0.1:{port}/liveness")
    yield f"http://127.0.0.1:{port}/", root
    running.stop()


@pytest.fixture
def plan_file(folder, program):
    path = folder[1] / "mine.plan.json"
    Plan(program, "data:4 model:2", "batch:data").save(path)
    return path


def opened(page, folder, name="mine.plan.json"):
    page.goto(f"{folder[0]}?file={name}")
    page.locator(".wb .chip").first.wait_for()
    return page


def test_a_file_is_opened_and_control_s_saves_it(guarded, folder, plan_file):
    page = opened(guarded, folder)
    drag(page, "hidden", "model")
    assert str(load_plan(plan_file).layout) == "batch:data"
    page.keyboard.press("Control+s")
    expect(page.locator(".told[role=status]")).to_have_text(re.compile("Saved to mine.plan.json"))
    assert str(load_plan(plan_file).layout) == "batch:data; hidden:model"


def test_of_two_tabs_on_one_file_the_second_sees_what_the_first_saved(guarded, context, folder, plan_file):
    first, second = opened(guarded, folder), opened(context.new_page(), folder)
    drag(first, "hidden", "model")
    first.keyboard.press("Control+s")
    expect(grip(second, "hidden", "model")).to_be_visible(timeout=10_000)
    expect(second.locator("#notices .notice")).to_be_hidden()


def test_unsaved_work_is_not_replaced_by_what_another_saved_but_asked_about(guarded, folder, plan_file, program):
    page = opened(guarded, folder)
    drag(page, "hidden", "model")
    place = page.locator(".wb .card").bounding_box()
    Plan(program, "data:4 model:2", "io:model").save(plan_file)
    expect(page.locator("#notices .notice")).to_contain_text("mine.plan.json was changed by another person", timeout=10_000)
    assert page.locator(".wb .card").bounding_box() == place  # the notice lies over the board
    expect(grip(page, "hidden", "model")).to_be_visible()
    page.get_by_role("button", name=re.compile("Show theirs")).click()
    expect(grip(page, "io", "model")).to_be_visible()
    expect(page.locator("#notices .notice")).to_be_hidden()
    page.locator("[data-verb=undo]").click()
    expect(grip(page, "hidden", "model")).to_be_visible()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../secret.plan.json", "outside the served folder"),
        ("/etc/hosts", "outside the served folder"),
        ("mine.txt", "not a plan file"),
        ("absent.plan.json", "cannot be read"),
        ("broken.plan.json", "is not JSON"),
        ("foreign.plan.json", "not a plan document"),
    ],
)
def test_a_file_that_cannot_be_opened_is_a_message(guarded, folder, name, said):
    (folder[1] / "broken.plan.json").write_text('{"format": ')
    (folder[1] / "foreign.plan.json").write_text('{"format": "another"}')
    guarded.goto(f"{folder[0]}?file={name}")
    expect(guarded.get_by_role("alert").filter(visible=True)).to_contain_text(said)
