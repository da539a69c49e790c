"""Backups and moves: the same rows, by their digests, between both kinds of databases, while somebody writes, and from hostile archives."""

import io
import json
import stat
import tarfile
import threading
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import func, insert, select, update

from tests.support.filled_stores import fill
from workbench.team.store import backup as backup_module
from workbench.team.store import migrate
from workbench.team.store.backup import BackupError, MoveError, backup, move, restore
from workbench.team.store.migrate import digests, snapshot
from workbench.team.store.store import Store, now
from workbench.team.store.tables import AuditEntry, Setting


def digests_of(store):
    with snapshot(store) as connection:
        return digests(connection)


@cache
def empty_tables():
    """The file of a database with this version's tables."""
    with TemporaryDirectory() as folder:
        store = Store.open(f"sqlite:///{folder}/team.db")
        migrate.upgrade(store)
        store.close()
        return Path(folder, "team.db").read_bytes()


def filled(store, rows=5):
    if store.is_sqlite:
        Path(store.engine.url.database).write_bytes(empty_tables())
    else:
        migrate.upgrade(store)
    fill(store, rows)
    return digests_of(store)


@pytest.fixture
def other(tmp_path):
    made = Store.open(f"sqlite:///{tmp_path}/other.db")
    yield made
    made.close()


def test_what_is_restored_is_what_was_backed_up(store, other, tmp_path):
    before = filled(store)
    (tmp_path / "data" / "jobs" / "a").mkdir(parents=True)
    (tmp_path / "data" / "jobs" / "a" / "events.jsonl").write_text('{"step": 1}\n')
    (tmp_path / "data" / "secret_key").write_text("never")
    (tmp_path / "data" / "jobs" / "link").symlink_to("/etc/passwd")
    made = backup(store, tmp_path / "data", path := tmp_path / "b.tar.gz")
    assert (made.digests, made.files, set(made.rows.values())) == (before, 1, {5})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with tarfile.open(path) as archive:
        assert not any("secret_key" in name or "link" in name for name in archive.getnames())
    assert restore(path, other, tmp_path / "restored") == made
    assert digests_of(other) == before
    assert (tmp_path / "restored" / "jobs" / "a" / "events.jsonl").read_text() == '{"step": 1}\n'


def test_a_backup_of_sqlite_is_restored_into_postgresql(sqlite_store, postgres_store, tmp_path):
    before = filled(sqlite_store)
    backup(sqlite_store, tmp_path, tmp_path / "b.tar.gz")
    restore(tmp_path / "b.tar.gz", postgres_store, tmp_path / "restored")
    assert digests_of(postgres_store) == before


def test_a_move_to_postgresql_keeps_every_row_and_counting_goes_on(sqlite_store, postgres_store):
    before = filled(sqlite_store, 7)
    counts = move(sqlite_store, postgres_store)
    assert set(counts.values()) == {7}
    assert digests_of(postgres_store) == before
    with postgres_store.write() as session:
        session.add(AuditEntry(created=now(), user_id=None, project_id=None, action="a", details={}))
        session.flush()
        assert session.scalar(select(func.max(AuditEntry.id))) == 8
    with pytest.raises(MoveError, match="has rows already"):
        move(sqlite_store, postgres_store)


def test_a_move_back_to_sqlite(postgres_store, other):
    before = filled(postgres_store)
    move(postgres_store, other)
    assert digests_of(other) == before


def test_a_store_of_another_version_is_not_moved(sqlite_store, other):
    with pytest.raises(MoveError, match="only version `quotas` can be moved"):
        move(sqlite_store, other)


def test_a_move_that_fails_leaves_nothing(sqlite_store, other, monkeypatch):
    filled(sqlite_store)
    calls = iter("abcdefgh")
    monkeypatch.setattr("workbench.team.store.backup.digests", lambda _connection: dict.fromkeys(("user", "plan"), next(calls)))
    with pytest.raises(MoveError, match="The rows of plan, user differ there; nothing was moved"):
        move(sqlite_store, other)
    assert len(set(digests_of(other).values())) == 1  # every table is empty


def test_a_backup_is_of_one_moment_while_somebody_writes(store, tmp_path):
    migrate.upgrade(store)
    with store.write() as session:
        session.execute(insert(Setting), [{"key": key, "value": {"n": 0}} for key in "ab"])
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            with store.write() as session:
                session.execute(update(Setting).values(value={"n": number}))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            backup(store, tmp_path, tmp_path / f"{number}.tar.gz")
    finally:
        stop.set()
        writer.join()
    for number in range(5):
        with tarfile.open(tmp_path / f"{number}.tar.gz") as archive:
            rows = [json.loads(line) for line in archive.extractfile("tables/setting.jsonl")]
        assert rows[0]["value"] == rows[1]["value"]


def test_a_backup_goes_into_an_empty_place_only(sqlite_store, other, tmp_path):
    filled(sqlite_store)
    path = tmp_path / "b.tar.gz"
    backup(sqlite_store, tmp_path, path)
    with pytest.raises(BackupError, match="already exists"):
        backup(sqlite_store, tmp_path, path)
    with pytest.raises(BackupError, match="has rows already"):
        restore(path, sqlite_store, tmp_path / "x")
    (tmp_path / "full" / "jobs" / "a").mkdir(parents=True)
    with pytest.raises(BackupError, match="already has jobs"):
        restore(path, other, tmp_path / "full")
    with pytest.raises(BackupError, match="no tables yet"):
        backup(other, tmp_path, tmp_path / "c.tar.gz")
    with pytest.raises(BackupError, match="cannot be written"):
        backup(sqlite_store, tmp_path, tmp_path / "missing" / "c.tar.gz")


def changed(path, target, change):
    """A copy of a backup, with files changed or added."""
    with tarfile.open(path) as old, tarfile.open(target, "w:gz") as new:
        for info in old:
            content = old.extractfile(info).read()
            content = change.get(info.name, lambda text: text)(content)
            info.size = len(content)
            new.addfile(info, io.BytesIO(content))
        for name in change.keys() - set(old.getnames()):
            made = change[name](tarfile.TarInfo(name))
            new.addfile(made, io.BytesIO(b"x" * made.size))
    return target


def link(info):
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return info


def plain(info):
    info.size = 3
    return info


def test_damaged_and_hostile_archives(sqlite_store, other, tmp_path):
    filled(sqlite_store)
    path = tmp_path / "b.tar.gz"
    backup(sqlite_store, tmp_path, path)
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(path.read_bytes()[:-300])
    nothing = tmp_path / "nothing"
    nothing.write_bytes(b"no archive")
    bad = [cut, nothing, tmp_path / "missing"]
    tampered = {
        "manifest.json": lambda _text: b"{}",
        "tables/user.jsonl": lambda text: text.replace(b"user-9", b"user-1") if b"user-9" in text else b"",
        "tables/plan.jsonl": lambda _text: b"not json\n",
    }
    bad += [changed(path, tmp_path / f"t{number}.tar.gz", {name: change}) for number, (name, change) in enumerate(tampered.items())]
    future = changed(path, tmp_path / "f.tar.gz", {"manifest.json": lambda text: text.replace(b'"format": 1', b'"format": 9')})
    for each in [*bad, future]:
        with pytest.raises(BackupError):
            restore(each, other, tmp_path / "restored")
    names = {"../evil": plain, "/tmp/evil-workbench": plain, "secret_key": plain, "jobs/link": link, "jobs/good": plain}
    outside = changed(path, tmp_path / "o.tar.gz", names)
    restore(outside, other, tmp_path / "restored")
    assert sorted(each.name for each in (tmp_path / "restored").rglob("*")) == ["good", "jobs"]


def test_a_path_out_of_the_folder_is_refused(sqlite_store, other, tmp_path):
    filled(sqlite_store)
    backup(sqlite_store, tmp_path, path := tmp_path / "b.tar.gz")
    evil = changed(path, tmp_path / "e.tar.gz", {"jobs/../../evil": plain})
    with pytest.raises(BackupError, match="not a whole backup"):
        restore(evil, other, tmp_path / "restored")
    assert not (tmp_path / "evil").exists()
    assert len(set(digests_of(other).values())) == 1


def test_a_file_that_grows_is_added_as_long_as_it_was(sqlite_store, other, tmp_path, monkeypatch):
    migrate.upgrade(sqlite_store)
    (tmp_path / "jobs").mkdir()
    events = tmp_path / "jobs" / "events.jsonl"
    events.write_text("a" * 100)
    add = tarfile.TarFile.addfile

    def growing(self, info, file=None):
        if info.name.startswith("jobs/"):
            with events.open("a") as more:
                more.write("b" * 1000)
        add(self, info, file)

    monkeypatch.setattr(backup_module.tarfile.TarFile, "addfile", growing)
    backup(sqlite_store, tmp_path, tmp_path / "b.tar.gz")
    restore(tmp_path / "b.tar.gz", other, tmp_path / "restored")
    assert (tmp_path / "restored" / "jobs" / "events.jsonl").read_text() == "a" * 100
