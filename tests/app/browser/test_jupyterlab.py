"""The extension in a real JupyterLab: plan files as documents, the launcher, the palette, and the plans of running kernels."""

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from playwright.sync_api import Page, expect

from tests.app.browser.test_page import drag, grip
from tests.support.jupyterlab import READY, clear, command, double_click, plan_board, plan_frame, run_cell, write_notebook
from workbench.documents import load_plan
from workbench.public_plan import Plan

PLAN = """
import workbench as wb
from workbench.models import build
plan = wb.Plan(build("two_layer", batch=16, io=64, hidden=30), "data:8")
"""
LESSONS = Path(__file__).parents[3] / "lessons"
DIRTY = re.compile(r"\bjp-mod-dirty\b")


@pytest.fixture
def plan_file(lab, program, request):
    """A plan file of this test's own."""
    path = lab[1] / f"{request.node.name[5:25]}.plan.json"
    Plan(program, "data:4 model:2", "batch:data").save(path)
    return path


@pytest.fixture(autouse=True)
def empty(desk):
    """Nothing is open."""
    clear(desk)


def inside(page: Page, frame) -> SimpleNamespace:
    """What the hands of the page's tests need: the board in its frame, the mouse of the window."""
    return SimpleNamespace(locator=frame.locator, mouse=page.mouse)


def tab(page: Page, name: str):
    return page.locator("#jp-main-dock-panel .lm-TabBar-tab", has_text=name)


def until(holds) -> None:
    """Wait for a file to be as it should."""
    end = time.monotonic() + 20
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)


def rules(path) -> dict:
    return json.loads(path.read_text())["layout"]["rules"]


def test_a_plan_file_opens_on_a_double_click_and_control_s_saves_what_was_dropped(desk, plan_file):
    board = inside(desk, double_click(desk, plan_file.name))
    before = plan_file.read_text()
    expect(tab(desk, plan_file.name)).not_to_have_class(DIRTY)
    drag(board, "hidden", "model")
    expect(grip(board, "hidden", "model")).to_contain_text("30 → 15")
    expect(tab(desk, plan_file.name)).to_have_class(DIRTY)
    assert plan_file.read_text() == before
    desk.keyboard.press("Control+s")
    expect(tab(desk, plan_file.name)).not_to_have_class(DIRTY)
    assert rules(plan_file) == {"batch": "data", "hidden": "model"}


def test_a_drop_that_is_undone_leaves_nothing_to_save(desk, plan_file):
    board = inside(desk, double_click(desk, plan_file.name))
    drag(board, "hidden", "model")
    expect(tab(desk, plan_file.name)).to_have_class(DIRTY)
    desk.keyboard.press("Control+z")
    expect(tab(desk, plan_file.name)).not_to_have_class(DIRTY)


def test_closing_a_document_with_changes_asks_first(desk, plan_file):
    board = inside(desk, double_click(desk, plan_file.name))
    drag(board, "hidden", "model")
    expect(tab(desk, plan_file.name)).to_have_class(DIRTY)
    command(desk, "application:close")
    expect(desk.locator(".jp-Dialog")).to_contain_text("Save your work")
    desk.get_by_role("button", name=re.compile("Discard")).click()
    assert rules(plan_file) == {"batch": "data"}


def test_a_file_changed_on_disk_is_shown_at_once_and_never_overwrites_unsaved_work(desk, plan_file, program):
    board = inside(desk, double_click(desk, plan_file.name))
    Plan(program, "data:4 model:2", "io:model").save(plan_file)
    expect(grip(board, "io", "model")).to_be_visible(timeout=10_000)
    expect(desk.locator(".Toastify__toast", has_text="changed on disk")).to_be_visible()
    drag(board, "batch", "data")
    Plan(program, "data:4 model:2", "hidden:model").save(plan_file)
    warning = desk.locator(".Toastify__toast", has_text="your changes to it are not saved")
    expect(warning).to_be_visible(timeout=10_000)
    expect(grip(board, "io", "model")).to_be_visible()
    warning.get_by_role("button", name="Show theirs").click()
    expect(grip(board, "hidden", "model")).to_be_visible()


def test_the_launcher_makes_a_new_plan_file(desk, lab):
    folder = lab[1]
    desk.locator(".jp-LauncherCard", has_text="Sharding Plan").click()
    frame = plan_frame(desk)
    expect(frame.locator(".start h1")).to_have_text("What do you want to shard?", timeout=90_000)
    frame.get_by_role("button", name="Go to the board").click()
    board = plan_board(desk)
    expect(board.locator(".head")).to_contain_text("gpt")
    expect(tab(desk, "untitled.plan.json")).not_to_have_class(DIRTY)
    assert load_plan(folder / "untitled.plan.json").program.name.startswith("gpt")


def test_the_palette_offers_a_new_plan_and_opening_one(desk, plan_file):
    desk.locator(".jp-LauncherCard").first.focus()
    desk.keyboard.press("Control+Shift+c")
    desk.locator(".lm-CommandPalette.lm-mod-focused").wait_for()
    desk.keyboard.type("sharding plan")
    labels = desk.locator(".lm-CommandPalette-itemLabel")
    expect(labels.filter(has_text="New Sharding Plan")).to_be_visible()
    labels.filter(has_text="Open Sharding Plan…").click()
    dialog = desk.locator(".jp-Dialog")
    expect(dialog.locator(".jp-DirListing-item", has_text=plan_file.name)).to_be_visible()
    dialog.locator(".jp-DirListing-item", has_text=plan_file.name).click()
    dialog.locator(".jp-mod-accept").click()
    expect(plan_board(desk).locator(".layout")).to_have_text("batch:data")


def test_a_file_that_is_no_plan_is_told_and_stays_as_it_is(desk, lab):
    folder = lab[1]
    (folder / "foreign.plan.json").write_text('{"a": 1}')
    command(desk, "docmanager:open", path="foreign.plan.json")
    frame = desk.frame_locator(".sw-plan iframe")
    expect(frame.get_by_role("alert").filter(visible=True)).to_contain_text("not a plan document", timeout=30_000)
    assert (folder / "foreign.plan.json").read_text() == '{"a": 1}'


def test_a_workbench_that_does_not_start_is_told_with_what_to_do_and_can_be_tried_again(desk, plan_file):
    desk.route("**/workbench/liveness", lambda route: route.fulfill(status=500))
    command(desk, "docmanager:open", path=plan_file.name)
    document = desk.locator(".sw-plan")
    expect(document).to_contain_text("The workbench could not be started: Jupyter's server answered 500.")
    expect(document).to_contain_text("Install it, then restart JupyterLab.")
    desk.unroute("**/workbench/liveness")
    document.get_by_role("button", name="Try again").click()
    expect(plan_board(desk).locator(".layout")).to_have_text("batch:data")


def test_a_plan_file_is_edited_by_keyboard_compiled_run_and_cancelled(desk, plan_file):
    frame = double_click(desk, plan_file.name)
    grip(inside(desk, frame), "hidden", "").focus()
    for key in (" ", "ArrowRight", "ArrowRight", " "):
        desk.keyboard.press(key)
    expect(grip(inside(desk, frame), "hidden", "model")).to_be_visible()
    frame.get_by_role("button", name="Compile", exact=True).click()
    frame.locator(".compile[data-phase=done]").wait_for(timeout=120_000)
    frame.get_by_label("steps to run").fill("5000")
    frame.get_by_role("button", name="Run", exact=True).click()
    frame.locator(".run[data-phase=running]").wait_for()
    frame.get_by_role("button", name="Cancel", exact=True).click()
    expect(frame.locator(".run .message")).to_have_text("Cancelled.", timeout=60_000)


@pytest.fixture
def lesson(lab, request):
    """A folder of this test's own with an exercise and nothing else. It stays: for a file that is gone, JupyterLab opens a dialog, even
    after its document was closed."""
    folder = lab[1] / request.node.name[5:25]
    folder.mkdir()
    (folder / "exercise.json").write_text((LESSONS / "one_product" / "exercise.json").read_text(encoding="utf-8"))
    return folder


def test_an_exercise_opens_as_its_questions_and_a_plan_beside_it_has_it_over_the_board(desk, lesson):
    command(desk, "docmanager:open", path=f"{lesson.name}/exercise.json")
    questions = desk.locator(".sw-exercise")
    expect(questions.locator("h1")).to_have_text("One product on two devices")
    questions.get_by_role("button", name="Open share.plan.json").click()
    frame = plan_board(desk)
    panel = frame.locator(".exercise")
    expect(panel.locator(".goal[data-met=true]")).to_have_count(1)
    drag(inside(desk, frame), "K", "x")
    expect(panel.locator(".goal[data-met=true]")).to_have_count(3)
    expect(tab(desk, "share.plan.json")).to_have_class(DIRTY)
    panel.get_by_role("button", name="Check").click()
    expect(panel.locator(".verdict")).to_contain_text("Right.", timeout=20_000)
    kept = lesson / "exercise.answers.json"
    until(lambda: kept.exists() and kept.read_text().endswith("}\n"))
    assert json.loads(kept.read_text())["right"] == ["share"]
    assert json.loads(kept.read_text())["answers"]["share"]["layout"]["rules"] == {"K": "x"}


def test_what_was_answered_beside_a_plan_stands_there_again(desk, lesson):
    kept = {"format": "sharding-workbench.answers", "version": 1, "answers": {"which": "2"}, "attempts": {"which": 3}, "right": ["which"]}
    (lesson / "exercise.answers.json").write_text(json.dumps(kept))
    (lesson / "half.plan.json").write_text("")
    command(desk, "docmanager:open", path=f"{lesson.name}/half.plan.json")
    frame = plan_board(desk)
    expect(frame.get_by_role("button", name="Question 1, which, answered")).to_be_visible()
    expect(frame.locator(".exercise .step.open")).to_have_text("4")
    frame.get_by_role("button", name="Question 3, sent").click()
    frame.get_by_role("textbox", name="your answer").fill("2 MiB")
    desk.keyboard.press("Enter")
    expect(frame.locator(".exercise .verdict")).to_contain_text("Right.", timeout=20_000)
    until(lambda: "sent" in (text := (lesson / "exercise.answers.json").read_text()) and text.endswith("}\n"))
    found = json.loads((lesson / "exercise.answers.json").read_text())
    assert (found["answers"], found["right"]) == ({"which": "2", "sent": "2 MiB"}, ["which", "sent"])
    assert found["attempts"] == {"which": 3, "sent": 1}


def test_a_file_of_that_name_that_is_something_else_is_shown_as_text(desk, lesson):
    (lesson / "exercise.json").write_text('{"exercise": "push-ups"}')
    command(desk, "docmanager:open", path=f"{lesson.name}/exercise.json")
    expect(desk.locator(".sw-exercise pre")).to_have_text('{"exercise": "push-ups"}')


def test_the_board_follows_the_theme_of_jupyterlab(desk, plan_file):
    frame = double_click(desk, plan_file.name)
    expect(frame.locator(".wb[data-theme=light]")).to_be_visible()
    use_theme(desk, "JupyterLab Dark")
    try:
        expect(frame.locator(".wb[data-theme=dark]")).to_be_visible()
        expect(frame.locator("html[data-theme=dark]")).to_be_visible()
    finally:
        use_theme(desk, "JupyterLab Light")
        expect(frame.locator(".wb[data-theme=light]")).to_be_visible()


def use_theme(page: Page, theme: str) -> None:
    """Change it, and wait for the splash over it to go: JupyterLab's own script breaks if the next one comes before that."""
    command(page, "apputils:change-theme", theme=theme)
    page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)
    page.locator("#jupyterlab-splash").wait_for(state="detached")


def test_the_sidebar_lists_the_plans_of_running_kernels_and_brings_up_their_notebook(desk, lab):
    folder = lab[1]
    write_notebook(folder / "plans.ipynb", PLAN, "report = plan.report(); 1 + 1")
    desk.evaluate("() => jupyterapp.serviceManager.sessions.shutdownAll().then(() => 1)")
    command(desk, "docmanager:open", path="plans.ipynb")
    desk.wait_for_function(READY, timeout=60_000)
    command(desk, "sharding-workbench:live")
    sidebar = desk.locator("#sharding-workbench-live")
    expect(sidebar).to_contain_text("No running kernel holds a plan.")
    run_cell(desk, 0)
    row = sidebar.locator(".sw-item", has_text="two-layer")
    expect(row).to_contain_text("data:8", timeout=20_000)
    run_cell(desk, 1)
    expect(row.locator(".sw-memory")).to_contain_text("KiB")
    expect(desk.locator(".jp-InputPrompt").nth(1)).to_have_text("[2]:")  # asking counted nothing
    command(desk, "launcher:create")
    expect(tab(desk, "plans.ipynb")).not_to_have_class(re.compile("lm-mod-current"))
    row.click()
    expect(tab(desk, "plans.ipynb")).to_have_class(re.compile("lm-mod-current"))
