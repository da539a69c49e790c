"""The data folder is private, whoever made what is in it."""

import errno
import logging
import os
import stat
from pathlib import Path

import pytest

from workbench.errors import WorkbenchError
from workbench.team.data_folder import private_data
from workbench.team.jobs.job_folder import write_folder
from workbench.team.jobs.job_spec import JobSpec
from workbench.team.programs.program_tree import TreeStore, seal_tree
from workbench.team.store.store import Store
from workbench.team.store.tables import Base


@pytest.fixture(autouse=True)
def common_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(data):
    """What other users could read or enter, apart from links."""
    return sorted(str(each.relative_to(data)) for each in (data, *data.rglob("*")) if not each.is_symlink() and mode(each) & 0o077)


def repair(data):
    with private_data(data):
        """Opened and closed."""


def test_a_folder_that_was_there_before_is_made_private_and_one_line_says_so(tmp_path, caplog):
    data = tmp_path / "data"
    (data / "jobs" / "a").mkdir(parents=True)
    for name in ("team.toml", "team.db", "team.db-wal", "jobs/a/stdout"):
        (data / name).write_text("")
    assert len(open_to_others(data)) == 7
    with caplog.at_level(logging.WARNING):
        repair(data)
    assert open_to_others(data) == []
    assert mode(data) == mode(data / "jobs") == 0o700
    assert mode(data / "team.toml") == 0o600
    assert caplog.messages == [f"Other users could read 7 files or folders in {data}; the modes were corrected."]
    caplog.clear()
    repair(data)
    assert caplog.messages == []


def test_what_is_written_meanwhile_is_private_also_by_sqlite_and_the_umask_is_back_afterwards(tmp_path):
    data = tmp_path / "new" / "data"
    with private_data(data):
        store = Store.open(f"sqlite:///{data}/team.db")
        Base.metadata.create_all(store.engine)
        assert {each.name for each in data.iterdir()} == {"team.db", "team.db-wal", "team.db-shm"}
        assert open_to_others(data) == []
        store.close()
    (tmp_path / "after").touch()
    assert mode(tmp_path / "after") == 0o644


def test_links_are_not_followed(tmp_path):
    outside, data = tmp_path / "outside", tmp_path / "data"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_text("")
    data.mkdir()
    (data / "file").symlink_to(outside / "file")
    (data / "folder").symlink_to(outside / "folder")
    (tmp_path / "link").symlink_to(data)
    repair(tmp_path / "link")  # the data folder itself may be a link
    assert mode(data) == 0o700
    assert [mode(outside / "file"), mode(outside / "folder")] == [0o644, 0o755]


def test_programs_and_plans_of_jobs_stay_readable_for_sandboxes_within_private_folders(tmp_path):
    data = tmp_path / "data"
    with private_data(data):
        trees = TreeStore(data / "programs" / "trees")
        with trees.staging() as staged:
            (staged / "pkg").mkdir()
            (staged / "pkg" / "mine.py").write_text("x = 1\n")
            trees.keep(staged, digest := seal_tree(staged))
        write_folder(data / "jobs" / "a", JobSpec(plan="d" * 64, devices=1), "{}", ["true"], {})
    tree = f"programs/trees/{digest}"
    expected = ["jobs/a/plan.json", "programs/trees", tree, f"{tree}/pkg", f"{tree}/pkg/mine.py"]
    assert open_to_others(data) == expected
    assert mode(data / "programs") == mode(data / "jobs" / "a") == 0o700
    for name in expected:
        (data / name).chmod(0o700 if (data / name).is_dir() else 0o666)
    repair(data)
    assert open_to_others(data) == expected
    assert not any(mode(data / name) & 0o022 for name in expected)
    trees.verified(digest)


def refuse(monkeypatch, number, names=None):
    """Have the system refuse to change modes, of all or of some."""
    allowed = Path.chmod

    def chmod(path, wanted, **options):
        if names is None or path.name in names:
            raise OSError(number, os.strerror(number), str(path))
        allowed(path, wanted, **options)

    monkeypatch.setattr(Path, "chmod", chmod)


def test_what_is_mounted_read_only_is_a_warning(tmp_path, monkeypatch, caplog):
    (tmp_path / "team.toml").write_text("")
    refuse(monkeypatch, errno.EROFS, {"team.toml"})
    with caplog.at_level(logging.WARNING):
        repair(tmp_path)
    assert caplog.messages[-1] == (
        f"Other users can read {tmp_path / 'team.toml'}, and the mode cannot be changed: {os.strerror(errno.EROFS)}."
    )


@pytest.mark.parametrize("name", ["", "team.db"])
def test_what_belongs_to_another_user_is_refused_with_a_way_out(tmp_path, monkeypatch, name):
    data = tmp_path / "data"
    data.mkdir()
    (data / "team.db").write_text("")
    path, lstat = data / name, Path.lstat
    foreign = os.stat_result((stat.S_IFREG | 0o644, 1, 1, 1, 12345, 0, 0, 0, 0, 0))
    monkeypatch.setattr(Path, "lstat", lambda each: foreign if each == path else lstat(each))
    refuse(monkeypatch, errno.EPERM, {path.name})
    with pytest.raises(WorkbenchError) as error:
        repair(data)
    assert error.value.message == (
        f"{path} belongs to the user with the number 12345, this process runs as {os.geteuid()}, and other users can read it."
    )
    assert error.value.ways_out[0] == f"run `chown -R {os.geteuid()}` on the data folder"


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkbenchError, match=r"file/data cannot be created: Not a directory\."):
        repair(tmp_path / "file" / "data")
