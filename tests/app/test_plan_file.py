"""A plan file as one visitor knows it: what others wrote is noticed, and never overwritten unasked."""

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from workbench.app.page.requested_visit import requested_file
from workbench.app.page.serve_options import ServeOptions
from workbench.app.page.watched_plan_file import PlanFile, file_under
from workbench.documents import dump_plan, durable_files, load_plan
from workbench.documents.durable_files import lock_folder, replace_file
from workbench.errors import DocumentError
from workbench.models import build
from workbench.public_plan import Plan

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
    with pytest.raises(DocumentError, match="changed by another person"):
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
    served = ServeOptions(lambda: BEFORE, path)
    assert requested_file(served, {}) == requested_file(served, {"file": "a.plan.json"}) == path
    with pytest.raises(DocumentError, match=r"asks for the file `nope\.plan\.json`, but this server has no plan folder") as caught:
        requested_file(served, {"file": "nope.plan.json"})
    assert "start it with `--root FOLDER`" in caught.value.ways_out
    assert requested_file(ServeOptions(lambda: BEFORE, None, path.parent), {"file": "a.plan.json"}) == path


def saved(file, plan, gate) -> DocumentError | None:
    """Save once all are there; what was refused."""
    gate.wait()
    try:
        file.save(plan)
    except DocumentError as error:
        return error
    return None


@pytest.mark.parametrize("turn", range(3))
def test_of_two_simultaneous_saves_one_is_told_that_the_file_has_changed(path, turn):
    files, plans, gate = (PlanFile(path), PlanFile(path)), (MINE, THEIRS), threading.Barrier(2)
    for each in files:
        each.read()
    with ThreadPoolExecutor(2) as both:
        refused = [*both.map(saved, files, plans, (gate, gate))]
    (lost,) = (number for number in (0, 1) if refused[number])
    assert "changed by another person" in str(refused[lost])
    assert load_plan(path) == plans[1 - lost]


def test_a_save_waits_for_that_of_another_and_sees_what_it_wrote(path, monkeypatch):
    file = PlanFile(path)
    file.read()
    with ThreadPoolExecutor(1) as mine:
        with lock_folder(path):
            saving = mine.submit(saved, file, MINE, threading.Barrier(1))
            time.sleep(0.1)
            assert not saving.done()
            replace_file(path, dump_plan(THEIRS).encode())  # as the other one does
        assert "changed by another person" in str(saving.result())
    assert load_plan(path) == THEIRS
    monkeypatch.setattr(durable_files, "_LOCK_TIMEOUT", 0.0)
    with lock_folder(path), pytest.raises(DocumentError) as caught:
        PlanFile(path).save(MINE)
    assert str(caught.value) == (
        f"`{path}` cannot be written: another program has been writing to its folder for 0 seconds.\n  Try: try again."
    )


def test_what_another_wrote_right_after_a_save_is_noticed(path, monkeypatch):
    file = PlanFile(path)
    file.read()
    remember = file._remember

    def later():
        THEIRS.save(path)
        remember()

    monkeypatch.setattr(file, "_remember", later)
    file.save(MINE)
    monkeypatch.undo()
    assert file.changed_by_others()
    assert not file.changed_by_others()


def test_a_file_that_two_saw_go_is_written_anew_by_one(path):
    files = PlanFile(path), PlanFile(path)
    for each in files:
        each.read()
    path.unlink()
    for each in files:
        assert not each.changed_by_others()
    files[0].save(MINE)
    with pytest.raises(DocumentError, match="changed by another person"):
        files[1].save(THEIRS)
    assert load_plan(path) == MINE


def test_a_change_of_the_same_length_within_the_same_tick_of_the_clock_is_seen(path):
    file = PlanFile(path)
    file.read()
    before = path.stat()
    text = path.read_bytes()
    replace_file(path, text.replace(b"data", b"dada"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.changed_by_others()
