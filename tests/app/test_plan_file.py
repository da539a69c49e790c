"""A plan file as one visitor knows it: what others wrote is noticed, and never overwritten unasked."""

import json
import os

import pytest

from workbench.app.opening import Served, file_asked_for
from workbench.app.plan_file import PlanFile, file_under
from workbench.documents import load_plan
from workbench.errors import DocumentError
from workbench.models import build
from workbench.plan import Plan

PROGRAM = build("two_layer", batch=16, io=64, hidden=32)
BEFORE, MINE, THEIRS = (Plan(PROGRAM, "data:4 model:2", layout) for layout in ("", "batch:data", "hidden:model"))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.plan.json"
    BEFORE.save(path)
    return path


def test_what_was_saved_is_read_again_and_is_no_change_by_others(path):
    file = PlanFile(path)
    assert file.read() == BEFORE
    assert file.save(MINE) == "a.plan.json"
    assert load_plan(path) == MINE
    assert file.holds(MINE)
    assert not file.changed_by_others()


def test_a_change_by_others_is_told_once(path):
    file = PlanFile(path)
    file.read()
    THEIRS.save(path)
    assert file.changed_by_others()
    assert not file.changed_by_others()
    assert file.read() == THEIRS


def test_a_file_that_was_touched_only_is_no_change(path):
    file = PlanFile(path)
    file.read()
    os.utime(path, (1, 1))
    assert not file.changed_by_others()
    file.save(MINE)


def test_the_first_save_over_a_change_by_others_is_refused_and_the_second_overwrites(path):
    file = PlanFile(path)
    file.read()
    THEIRS.save(path)
    with pytest.raises(DocumentError, match="changed by somebody else"):
        file.save(MINE)
    assert load_plan(path) == THEIRS
    file.save(MINE)
    assert load_plan(path) == MINE


def test_a_file_holds_its_plan_however_a_hand_has_spaced_it_and_none_that_others_wrote_since(path):
    path.write_text(json.dumps(json.loads(path.read_text())))
    file = PlanFile(path)
    assert file.holds(file.read())
    assert not file.holds(MINE)
    THEIRS.save(path)
    assert file.changed_by_others()
    assert not file.holds(BEFORE)


def test_a_file_that_is_gone_is_written_anew(path):
    file = PlanFile(path)
    file.read()
    path.unlink()
    assert not file.changed_by_others()
    file.save(MINE)
    assert load_plan(path) == MINE


UNREACHABLE = ("../a.plan.json", "/etc/a.plan.json", "x/../../a.plan.json", "link.plan.json", "..", "a.json", "", "a\0.json")


@pytest.mark.parametrize("name", UNREACHABLE)
def test_no_name_reaches_what_is_no_plan_file_of_the_folder(tmp_path, name):
    root = tmp_path / "root"
    root.mkdir()
    (root / "link.plan.json").symlink_to(tmp_path / "a.plan.json")
    with pytest.raises(DocumentError):
        file_under(root, name)


def test_plan_files_of_the_folder_and_below_are_reached(tmp_path):
    assert file_under(tmp_path, "a.plan.json") == tmp_path.resolve() / "a.plan.json"
    assert file_under(tmp_path, "below/a.plan.json") == tmp_path.resolve() / "below" / "a.plan.json"


def test_a_file_that_the_address_asks_for_is_not_passed_over_where_no_folder_is_served(path):
    served = Served(lambda: BEFORE, path)
    assert file_asked_for(served, {}) == file_asked_for(served, {"file": "a.plan.json"}) == path
    with pytest.raises(DocumentError, match=r"asks for the file `nope\.plan\.json`, and this server opens no folder") as caught:
        file_asked_for(served, {"file": "nope.plan.json"})
    assert "start it with `--root FOLDER`" in caught.value.ways_out
    assert file_asked_for(Served(lambda: BEFORE, None, path.parent), {"file": "a.plan.json"}) == path
