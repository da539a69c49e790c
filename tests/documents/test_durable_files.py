"""Files that are to be kept: on the disk before that is said, themselves afterwards, and in words where they cannot be written."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.cli.main import main
from workbench.core.operating_system import try_lock
from workbench.documents import durable_files
from workbench.documents.durable_files import lock_folder, make_folder, replace_file
from workbench.engine.compile.compile_in_process import _write
from workbench.engine.fleet.model_checkpoint import hold_folder
from workbench.errors import DocumentError, EngineError, FleetError, WorkbenchError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.visualize.draw.drawing_marks import Drawing
from workbench.visualize.draw.picture import Picture

PLAN = Plan(build("two_layer", batch=16, io=64, hidden=32), "data:4 model:2")


@pytest.fixture
def told(monkeypatch):
    """What is brought to the disk and what is put in its place, in order."""
    told: list[str] = []
    synced, replaced = os.fsync, Path.replace

    def sync(file):
        told.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        synced(file)

    def replace(path, to):
        told.append(f"{to.name} is put")
        return replaced(path, to)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replace)
    return told


def test_a_plan_is_on_the_disk_before_it_has_its_name_and_its_name_before_that_is_said(tmp_path, told):
    PLAN.save(tmp_path / "a.plan.json")
    assert told == ["file", "a.plan.json is put", "folder"]
    assert [each.name for each in tmp_path.iterdir()] == ["a.plan.json"]


def test_a_new_folder_is_on_the_disk_with_those_above_it(tmp_path, told):
    make_folder(tmp_path / "a" / "b")
    assert told == ["folder", "folder"]
    make_folder(tmp_path / "a" / "b")
    assert len(told) == 2


@pytest.mark.parametrize("there", [True, False])
def test_a_plan_is_saved_through_symbolic_links(tmp_path, there):
    target, link, other = tmp_path / "real" / "a.plan.json", tmp_path / "link.plan.json", tmp_path / "other.plan.json"
    target.parent.mkdir()
    if there:
        target.write_text("")
    link.symlink_to("other.plan.json")
    other.symlink_to(target)
    PLAN.save(link)
    assert link.is_symlink()
    assert other.is_symlink()
    assert not target.is_symlink()
    assert target.read_bytes() == link.read_bytes() != b""
    assert [each.name for each in target.parent.iterdir()] == ["a.plan.json"]


def test_links_that_lead_in_a_circle_are_said(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(DocumentError, match=f"cannot be written: {os.strerror(errno.ELOOP)}"):
        PLAN.save(tmp_path / "a")
    assert (tmp_path / "a").is_symlink()


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755, 0o640])
def test_a_file_keeps_its_permissions_and_a_new_one_has_those_of_any_new_file(tmp_path, mode):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("")
    old.chmod(mode)
    before = os.umask(0o027)
    try:
        replace_file(old, b"text")
        replace_file(new, b"text")
    finally:
        os.umask(before)
    assert stat.S_IMODE(old.stat().st_mode) == mode
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_a_file_keeps_its_owner_where_this_user_may_set_it_and_else_its_group(tmp_path, monkeypatch):
    path, asked = tmp_path / "a", []
    path.write_text("")
    mine = path.stat()

    def refuses_owners(file, owner, group):
        asked.append((owner, group))
        if owner != -1:
            raise PermissionError(errno.EPERM, "only root gives files away")

    like = os.stat_result((mine.st_mode, *mine[1:4], mine.st_uid + 1, mine.st_gid + 1, *mine[6:10]))
    monkeypatch.setattr(os, "fchown", refuses_owners)
    monkeypatch.setattr(durable_files, "_read_status", lambda _: like)
    replace_file(path, b"text")
    assert asked == [(mine.st_uid + 1, mine.st_gid + 1), (-1, mine.st_gid + 1)]


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "a.plan.json"
    path.write_text("mine")
    monkeypatch.setattr(os, "access", lambda *_: False)  # as an administrator one may write all
    with pytest.raises(DocumentError) as caught:
        PLAN.save(path)
    assert str(caught.value) == f"`{path}` cannot be written: Permission denied.\n  Try: choose a writable folder."
    assert path.read_text() == "mine"


def test_what_is_no_plain_file_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    replace_file(pipe, b"text")
    assert os.read(reading, 10) == b"text"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reading)


def test_a_full_disk_leaves_the_file_as_it_was_and_no_draft(tmp_path, monkeypatch):
    path = tmp_path / "a.plan.json"
    path.write_text("mine")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DocumentError) as caught:
        PLAN.save(path)
    assert str(caught.value) == (
        f"`{path}` cannot be written: No space left on device.\n  Try: free space on that disk · choose another folder."
    )
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.plan.json", "mine")]


@pytest.fixture
def read_only(monkeypatch):
    """Every file that is opened to be written, and every new folder, is refused."""
    opened = os.open

    def refuse(path, flags, *given, **named):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *given, **named)

    def refuse_folder(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "mkdir", refuse_folder)


def test_a_disk_that_is_read_only_is_said_wherever_something_is_written(tmp_path, read_only, capsys):
    path = tmp_path / "a.txt"
    message = f"`{path}` cannot be written: Read-only file system.\n  Try: choose a folder on a writable disk."
    writers = {
        DocumentError: lambda: PLAN.save(path),
        EngineError: lambda: _write(str(path), "HloModule m"),
        FleetError: lambda: hold_folder(path).__enter__(),
        WorkbenchError: lambda: Picture.of(Drawing(10, 10, ()), "a picture").save(path),
    }
    for kind, write in writers.items():
        with pytest.raises(kind) as caught:
            write()
        assert str(caught.value) == message
    arguments = ["--model", "two_layer", "--mesh", "data:4 model:2"]
    script = path.with_suffix(".py")
    assert main(["export", *arguments, "-o", str(script)]) == 1
    assert capsys.readouterr().err == f"workbench: {message}\n".replace(str(path), str(script))


HOLDING = """
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("there", flush=True)
time.sleep(600)
"""


def test_a_folder_is_locked_against_other_processes_and_one_that_is_killed_leaves_no_lock_behind(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "there\n"
        folder = os.open(tmp_path, os.O_RDONLY)
        assert not try_lock(folder)
        os.close(folder)
        other.kill()
    with lock_folder(tmp_path / "a"):
        pass


def test_a_folder_that_may_not_be_listed_is_written_without_a_lock(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "no folder is opened here")

    monkeypatch.setattr(os, "open", refuse)
    with lock_folder(tmp_path / "a"):
        pass
