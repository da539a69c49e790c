"""Save, open, export and link from the board; whatever goes wrong is said, and nothing that was there is lost."""

import base64
import json

import pytest

from tests.support.importable import regression
from tests.widgets.test_board import Screen
from workbench.documents import ALL_EXPORTS, dump_plan, load_plan, parse_link
from workbench.errors import DocumentError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.visualize.exports.file_exports import FILE_EXPORTS
from workbench.widgets.board.board_host import Host, notebook_host
from workbench.widgets.board.plan_files_panel import MOST_FILE


@pytest.fixture
def screen(session) -> Screen:
    return Screen(session)


def test_without_a_file_the_browser_downloads_the_plan_once(screen, session):
    files = screen.send("save")["files"]
    assert files["download"] == {"name": "two-layer.plan.json", "text": dump_plan(session.plan), "view": "test", "seq": 1}
    assert files["word"] == "two-layer.plan.json is in your downloads."
    assert screen.send("dismiss")["files"]["download"] is None


def test_a_host_hears_of_a_download(session):
    kept = []
    Screen(session, host=Host(downloaded=kept.append)).send("save")
    assert kept == [session.plan]


def test_a_host_with_a_file_saves_there_and_says_where(session):
    saved = []
    screen = Screen(session, host=Host(save=lambda plan: saved.append(plan) or "mine.plan.json", path="mine.plan.json"))
    files = screen.send("save")["files"]
    assert (saved, files["word"], files["download"], files["path"]) == ([session.plan], "Saved to mine.plan.json.", None, "mine.plan.json")


def test_a_plan_is_named_when_it_is_saved_where_others_look_for_it(session):
    saved = []
    screen = Screen(session, host=Host(save=lambda plan: saved.append(plan) or "", names_saved=True))
    files = screen.send("save")["files"]
    assert (saved, files["sheet"]["kind"], files["sheet"]["text"]) == ([], "save", session.plan.name)
    files = screen.send("save", name=" fast  one ")["files"]
    assert ([plan.name for plan in saved], files["sheet"], files["word"]) == (["fast one"], None, "")


def test_a_host_that_cannot_save_says_why(session):
    def refuse(_plan):
        raise DocumentError("The disk is full.", ["choose another folder"])

    refusal = Screen(session, host=Host(save=refuse)).send("save")["refusal"]
    assert (refusal["zone"], refusal["message"], refusal["ways_out"]) == ("tools", "The disk is full.", ["choose another folder"])


def test_a_notebook_saves_where_the_kernel_works_and_over_its_own_files_alone(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two-layer.plan.json").write_text("somebody's")
    screen = Screen(session, host=notebook_host())
    assert screen.send("save")["files"]["word"] == "Saved to two-layer-2.plan.json."
    screen.send("drop", dim="hidden", source="", target="model")
    assert screen.send("save")["files"]["word"] == "Saved to two-layer-2.plan.json."
    assert load_plan("two-layer-2.plan.json") == session.plan
    assert (tmp_path / "two-layer.plan.json").read_text() == "somebody's"


def test_an_opened_plan_is_one_more_of_the_history(screen, session):
    before = session.plan
    text = dump_plan(before.updated(mesh="data:8", layout="batch:data", name="theirs"))
    state = screen.send("open_file", name="theirs.plan.json", text=text)
    assert (state["name"], state["mesh"], state["undo"]) == ("theirs", "data:8", "Undo open theirs.plan.json")
    assert state["files"]["word"] == "Opened theirs.plan.json. Undo returns to the previous plan."
    screen.send("undo")
    assert session.plan is before


BROKEN = {
    "not json": ("{", "is not JSON"),
    "of another program": ('{"nbformat": 4, "cells": []}', "is JSON, but not a plan document"),
    "cut off": (lambda text: text[: len(text) // 2], "is not JSON"),
    "of a newer version": (lambda text: text.replace('"version": 1', '"version": 9'), "install a newer workbench"),
    "with a program that is missing": (
        lambda text: text.replace('"two_layer"', '"my_models.big:build"'),
        "which is not in the zoo and not allowed here",
    ),
    "with a model that is missing": (lambda text: text.replace('"two_layer"', '"two_layers"'), "did you mean `two_layer`?"),
    "illegal": (lambda text: text.replace('["data", 4]', '["data", 3]'), "16 % 3 = 1"),
    "with a mesh of nothing": (lambda text: text.replace('["data", 4]', '["data", 0]'), "`$.mesh[0][1]`"),
    "empty": ("", "is not JSON"),
    "too large": (None, "too large for a plan document"),
    "with a name of bytes": (b"\xff".decode("latin-1"), "is not JSON"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_is_no_plan_here_is_told_and_changes_nothing(screen, session, kind):
    text, said = BROKEN[kind]
    text = text(dump_plan(session.plan)) if callable(text) else text
    before = session.nodes, session.report
    refusal = screen.send("open_file", name="theirs.json", text=text)["refusal"]
    assert refusal["zone"] == "tools"
    assert said in " ".join([refusal["message"], *refusal["ways_out"]])
    assert refusal["ways_out"] or kind == "with a model that is missing"
    assert (session.nodes, session.report) == before


def test_a_text_of_a_gigabyte_is_not_parsed(screen):
    assert "too large" in screen.send("open_file", name="big.json", text=" " * (MOST_FILE + 1))["refusal"]["message"]


@pytest.mark.parametrize("form", ALL_EXPORTS, ids=lambda each: each.key)
def test_every_export_is_shown_and_follows_the_plan(screen, session, form):
    sheet = screen.send("export", form=form.key)["files"]["sheet"]
    assert sheet["text"] == form.write(session.plan)
    assert [each["key"] for each in sheet["forms"] if each["open"]] == [form.key]
    assert sheet["name"] == f"two_layer{form.ending}"
    after = screen.send("drop", dim="hidden", source="", target="model")["files"]["sheet"]
    assert after["text"] == form.write(session.plan) != sheet["text"]
    assert screen.send("close_sheet")["files"]["sheet"] is None


@pytest.mark.parametrize("form", FILE_EXPORTS, ids=lambda each: each.key)
def test_a_file_goes_to_the_view_that_asked_and_is_not_shown(form):
    session = Session(Plan(build("two_layer"), "data:4 model:2", "batch:data", hardware="TPU v5e 2x4"))
    screen = Screen(session)
    files = screen.send("export", form=form.key, view="here")["files"]
    download = files["download"]
    assert files["sheet"] is None
    assert base64.b64decode(download["base64"]) == form.write(session.report, None)
    assert (download["name"], download["media"], download["view"]) == (f"two-layer{form.ending}", form.media, "here")
    assert files["word"] == f"two-layer{form.ending} is in your downloads."
    assert screen.send("dismiss")["files"]["download"] is None


def test_a_file_that_cannot_be_made_is_refused_where_it_was_asked_for(screen):
    refusal = screen.send("export", form="trace")["refusal"]
    assert (refusal["zone"], bool(refusal["ways_out"])) == ("tools", True)


def test_an_export_that_is_not_there_is_refused(screen):
    assert "Unknown export `exe`" in screen.send("export", form="exe")["refusal"]["message"]


def test_a_link_is_the_plan_and_where_there_is_no_address_the_text_alone(session):
    sheet = Screen(session, host=Host(link="?plan={}".format)).send("link")["files"]["sheet"]
    assert parse_link(sheet["text"].removeprefix("?plan=")) == session.plan
    assert parse_link(Screen(session).send("link")["files"]["sheet"]["text"]) == session.plan


def test_a_plan_whose_program_has_no_name_cannot_be_taken_away_but_the_board_goes_on():
    plan = Plan(regression(), "data:4 model:2", "batch:data")  # built by hand: it has no reference
    screen = Screen(Session(plan))
    for verb in ("save", "link"):
        refusal = screen.send(verb)["refusal"]
        assert "no reference" in refusal["message"]
        assert refusal["ways_out"]
    script = screen.send("export")["files"]["sheet"]
    assert script["text"] == ""
    assert "so a script could not build it" in script["problem"]["message"]
    specs = screen.send("export", form="specs")["files"]["sheet"]
    assert (bool(specs["text"]), specs["problem"]) == (True, None)
    assert screen.send("drop", dim="d_ff", source="", target="model")["layout"] == "batch:data; d_ff:model"


def test_a_sheet_whose_plan_cannot_be_written_any_more_closes_and_says_why(screen, session):
    from workbench.plan.edits import OpenPlan

    screen.send("link")
    session.apply(OpenPlan(Plan(regression(), "data:4"), "code"))
    files = screen.shown["board"]["files"]
    assert files["sheet"] is None
    assert "no reference" in files["word"]


def test_everything_the_board_publishes_is_json(screen):
    for verb, fields in (("history", {}), ("compare_plans", {"number": 0}), ("export", {}), ("save", {})):
        assert json.loads(json.dumps(screen.send(verb, **fields), allow_nan=False))
