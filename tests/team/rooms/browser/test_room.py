"""Two people in one room, each in a browser of their own, on a server as it is served: what one does, the other sees."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.app.browser.test_accessibility import AUDIT, findings_in_both
from tests.app.browser.test_page import drag, grip, lift, settled, zone
from tests.support.room_sessions import first_plan
from tests.support.servers import free_port, wait_for
from tests.support.tabs import open_tab, view_tab
from tests.support.team_rooms import RoomTeam
from tests.support.team_server import sign_in
from workbench.documents import dump_plan
from workbench.team.store.migrate import upgrade
from workbench.team.store.store import Store

expect.set_options(timeout=30_000)

WIDE = {"width": 1280, "height": 900}
LAYOUT = ".head .layout"


@pytest.fixture(scope="session")
def base_url() -> None:
    """None: the tests give whole addresses."""


class ServedTeam:
    """A server as a process, and browsers of those who are signed in there."""

    def __init__(self, team: RoomTeam, folder: Path, browser) -> None:
        self.team, self.folder, self.browser, self.port = team, folder, browser, free_port()
        self.address = f"http://localhost:{self.port}"
        self.pages: dict[str, Page] = {}
        self.broken: list[str] = []
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "workbench.cli", "team", "--data", str(self.folder), "serve", "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, env={**os.environ, "WORKBENCH_CACHE": str(self.folder / "cache")})
        wait_for(f"http://127.0.0.1:{self.port}/healthz")

    def kill(self) -> None:
        """As a machine that loses its power."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        for each in self.pages.values():
            each.context.close()
        self.process.terminate()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()

    def cookie(self, name: str) -> str:
        return sign_in(self.team.store, self.team.people[name])

    def page(self, name: str, key: str = "") -> Page:
        """Somebody's browser; the same one each time, for it has parsed the scripts. `key` is that of a further one."""
        if (key or name) not in self.pages:
            context = self.browser.new_context(viewport=WIDE, reduced_motion="reduce")
            context.add_cookies([{"name": "workbench", "value": self.cookie(name), "url": self.address}])
            page = context.new_page()
            page.on("pageerror", lambda error: self.broken.append(f"{name}: {error}"))
            self.pages[key or name] = page
        return self.pages[key or name]

    def api(self, name: str) -> httpx.Client:
        return httpx.Client(
            base_url=f"{self.address}/api/v1", cookies={"workbench": self.cookie(name)}, headers={"Origin": self.address}, timeout=60
        )

    def room(self, *names: str, has_tensors_open: bool = False) -> list[Page]:
        """A new room, opened by these people."""
        address = f"{self.address}/room/{self.team.new_room(dump_plan(first_plan()))}"
        pages = [self.page(name) for name in names]
        for each in pages:
            each.goto(address)
        for each in pages:
            each.locator(".wb .chip").first.wait_for(timeout=120_000)
        for each in pages:
            expect(people(each)).to_have_count(len(pages))
            if has_tensors_open:
                open_tab(each, "tensors")
        return pages


@pytest.fixture(scope="module")
def served(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    store = Store.open(f"sqlite:///{folder}/team.db")
    upgrade(store)
    served = ServedTeam(RoomTeam.begin(folder, store), folder, browser)
    yield served
    served.close()
    store.close()


@pytest.fixture(autouse=True)
def nothing_broken(served):
    yield
    assert served.broken == []


def people(page):
    return page.get_by_role("list", name="People in this room").get_by_role("listitem")


def person(page, name):
    return page.get_by_role("list", name="People in this room").get_by_role("button", name=name)


def row(page, path):
    return page.locator(f'.wb tr[data-subject="{path}"]').first


def test_under_another_name_nothing_is_answered_but_where_to_set_it(served):
    answer = httpx.get(f"http://127.0.0.1:{served.port}/", headers={"Host": "other.example"}, timeout=60)
    assert answer.status_code == 403
    assert answer.text == ("This server does not accept this host name. Its operator can set `address` or `origins` in team.toml.\n")


def test_a_drag_by_one_is_seen_by_the_other(served):
    ada, bob = served.room("ada", "bob")
    drag(ada, "hidden", "model")
    for page in (ada, bob):
        expect(page.locator(LAYOUT)).to_have_text("batch:data; hidden:model")
        expect(grip(page, "hidden", "model")).to_contain_text("16 → 8")
        expect(page.locator(".chip.pending")).to_have_count(0)
        expect(page.get_by_role("region", name="Room").get_by_role("status")).to_have_text("Ada hidden → model")
    drag(bob, "batch", "", source="data")
    expect(ada.locator(LAYOUT)).to_have_text("hidden:model")
    expect(ada.locator("[data-verb=undo]")).to_have_attribute("title", "Undo hidden → model")
    expect(bob.locator("[data-verb=undo]")).to_have_attribute("title", "Undo batch → whole")


def test_what_a_colleague_has_selected_and_holds_is_marked_with_name_and_colour(served):
    ada, bob = served.room("ada", "bob", has_tensors_open=True)
    row(bob, "w").locator("td").first.click()
    expect(row(bob, "w")).to_have_class(re.compile("chosen"))
    theirs = row(ada, "w")
    expect(theirs).to_have_class(re.compile("theirs"))
    expect(theirs).to_have_attribute("data-theirs", "Bob")
    cell = theirs.locator("td").first
    assert cell.evaluate("cell => getComputedStyle(cell, '::after').content") == '"Bob"'
    colour = cell.evaluate("cell => getComputedStyle(cell, '::after').backgroundColor")
    assert colour == person(ada, "Bob").locator(".dot").evaluate("dot => getComputedStyle(dot).backgroundColor")
    lift(bob, "hidden", "model")
    held = ada.locator('.chip[data-chip^="hidden@"]')
    expect(held).to_have_attribute("data-theirs", "Bob")
    assert held.evaluate("chip => getComputedStyle(chip, '::before').content") == '"Bob"'
    assert held.evaluate("chip => getComputedStyle(chip).outlineColor") == colour
    bob.keyboard.press("Escape")
    bob.mouse.up()
    row(bob, "w").locator("td").first.click()
    expect(held).not_to_have_attribute("data-theirs", "Bob")
    expect(ada.locator(".theirs")).to_have_count(0)


def test_following_somebody_opens_what_they_open(served):
    ada, bob = served.room("ada", "bob", has_tensors_open=True)
    person(bob, "Ada").click()
    expect(person(bob, "Ada")).to_have_attribute("aria-pressed", "true")
    ada.get_by_role("tab", name="Memory").click()
    for page in (ada, bob):
        expect(page.get_by_role("tab", name="Memory")).to_have_attribute("aria-selected", "true")
    view_tab(ada, "tensors").click()
    row(ada, "v").locator("td").first.click()
    expect(row(bob, "v")).to_have_class(re.compile("chosen"))
    person(bob, "Ada").click()
    expect(person(bob, "Ada")).to_have_attribute("aria-pressed", "false")
    ada.get_by_role("tab", name="Memory").click()
    expect(person(bob, "Ada")).to_contain_text("memory")
    expect(view_tab(bob, "tensors")).to_have_attribute("aria-selected", "true")


def test_each_undoes_what_is_their_own_and_the_keys_are_heard_in_the_bar_too(served):
    ada, bob = served.room("ada", "bob")
    drag(ada, "hidden", "model")
    expect(bob.locator(LAYOUT)).to_have_text("batch:data; hidden:model")
    person(bob, "Ada").focus()
    bob.keyboard.press("Control+z")
    drag(bob, "batch", "", source="data")
    expect(ada.locator(LAYOUT)).to_have_text("hidden:model")
    person(ada, "Bob").focus()
    ada.keyboard.press("Control+z")
    for page in (ada, bob):
        expect(page.locator(LAYOUT)).to_have_text("everything replicated")
    expect(person(ada, "Bob")).to_be_focused()
    ada.keyboard.press("Control+Shift+z")
    expect(bob.locator(LAYOUT)).to_have_text("hidden:model")
    bob.locator(".wb").focus()
    bob.keyboard.press("Control+z")
    expect(ada.locator(LAYOUT)).to_have_text("batch:data; hidden:model")
    ada.get_by_role("button", name="Comment").click()
    ada.keyboard.type("why")
    ada.keyboard.press("Control+z")
    settled(ada)
    expect(bob.locator(LAYOUT)).to_have_text("batch:data; hidden:model")


def test_whoever_branches_off_goes_on_alone(served):
    ada, bob = served.room("ada", "bob")
    drag(ada, "hidden", "model")
    ada.get_by_role("button", name="Branch off").click()
    notice = ada.get_by_role("alert").filter(has_text="Your own room")
    notice.get_by_role("button", name="Go there").click()
    expect(ada.get_by_role("region", name="Room")).to_contain_text("Ada's branch of Tuesday")
    expect(ada.locator(LAYOUT)).to_have_text("batch:data; hidden:model")
    drag(ada, "hidden", "", source="model")
    expect(ada.locator(LAYOUT)).to_have_text("batch:data")
    expect(bob.locator(LAYOUT)).to_have_text("batch:data; hidden:model")


def test_who_may_only_look_cannot_edit_and_is_told_so(served):
    vic, ada = served.room("vic", "ada")
    drag(vic, "hidden", "model")
    expect(vic.get_by_role("alert").filter(has_text="takes the role editor in this project; yours is viewer")).to_be_visible()
    expect(vic.locator(LAYOUT)).to_have_text("batch:data")
    expect(zone(vic, "").locator(".chip", has_text="hidden")).to_be_visible()
    drag(ada, "hidden", "model")
    expect(vic.locator(LAYOUT)).to_have_text("batch:data; hidden:model")
    ada.get_by_role("button", name="Comment").click()
    ada.get_by_role("textbox", name="On the present plan").fill("Why not the model axis?")
    ada.keyboard.press("Enter")
    vic.get_by_role("button", name="Comments 1").click()
    expect(vic.get_by_role("region", name="Comments").get_by_role("listitem")).to_contain_text("Why not the model axis?")
    expect(vic.get_by_role("textbox", name="On the present plan")).to_have_count(0)


@AUDIT
def test_a_room_can_be_used_by_everyone_in_light_and_dark(served):
    ada, bob = served.room("ada", "bob", has_tensors_open=True)
    row(bob, "w").locator("td").first.click()
    lift(bob, "hidden", "model")
    expect(ada.locator('.chip[data-theirs="Bob"]')).to_have_count(1)
    expect(row(ada, "w")).to_have_attribute("data-theirs", "Bob")
    ada.get_by_role("button", name="Comment").click()
    person(ada, "Bob").click()
    assert findings_in_both(ada) == {}
    bob.mouse.up()
    ada.emulate_media(color_scheme="light")


def test_the_keyboard_reaches_the_bar_and_its_ways(served):
    ada, bob = served.room("ada", "bob")
    ada.evaluate("() => document.activeElement?.blur()")
    reached = []
    for _ in range(6):
        ada.keyboard.press("Tab")
        reached.append(
            ada.evaluate(
                "() => { let at = document.activeElement; while (at?.shadowRoot) at = at.shadowRoot.activeElement; return at?.textContent }"
            )
        )
    assert [each.strip() for each in reached[:4]] == ["vision", "BBob overview", "Comment", "Branch off"]
    person(ada, "Bob").focus()
    ada.keyboard.press("Enter")
    expect(person(ada, "Bob")).to_have_attribute("aria-pressed", "true")
    bob.get_by_role("tab", name="Memory").click()
    expect(ada.get_by_role("tab", name="Memory")).to_have_attribute("aria-selected", "true")
    expect(person(ada, "Bob")).to_be_focused()


def test_who_signs_out_is_out_of_the_room_at_once(served):
    """In another tab of the same browser: the room's connection is closed with the login, and the page goes where one signs in."""
    ada, bob = served.room("ada", "bob")
    signed_out = bob.context.request.post(f"{served.address}/logout", headers={"Origin": served.address}, max_redirects=0)
    assert signed_out.status in (302, 303)
    bob.wait_for_url(re.compile("/login"))
    expect(bob.locator(".wb")).to_have_count(0)
    drag(ada, "hidden", "model")
    served.pages.pop("bob").context.close()


def test_a_role_that_is_taken_away_takes_the_board_from_the_page(served):
    ada, vic = served.room("ada", "vic")
    with served.api("ada") as owner:
        assert owner.delete("/projects/vision/members/vic").status_code == 200
    expect(vic.locator("#failure")).to_contain_text("You no longer have access to this room")
    expect(vic.locator(".wb")).to_have_count(0)
    expect(people(ada)).to_have_count(1)
    drag(ada, "hidden", "model")
    expect(ada.locator(".standing")).to_contain_text("by XLA of", timeout=120_000)


@pytest.mark.nightly
def test_a_server_that_is_killed_and_started_again_has_everybody_back_in_the_room(served):
    """Nobody reloads anything: what was acknowledged is there, and the room goes on."""
    ada, rosa = served.room("ada", "rosa")
    drag(ada, "hidden", "model")
    expect(rosa.locator(LAYOUT)).to_have_text("batch:data; hidden:model")
    served.kill()
    for page in (ada, rosa):
        expect(page.locator("#lost")).to_contain_text("Reconnecting")
    served.start()
    for page in (ada, rosa):
        expect(page.locator("#lost")).to_be_hidden(timeout=120_000)
        expect(page.locator(LAYOUT)).to_have_text("batch:data; hidden:model", timeout=120_000)
    drag(rosa, "batch", "", source="data")
    expect(ada.locator(LAYOUT)).to_have_text("hidden:model")
    expect(ada.locator("[data-verb=undo]")).to_have_attribute("title", "Undo hidden → model")
