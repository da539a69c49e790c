"""Back up a running server: one `.tar.gz` with all rows as JSON lines, and the folders of jobs and programs.

**Invariants**

- The rows are a consistent snapshot, and can be restored to SQLite and PostgreSQL.
- A backup is written atomically and readable by its owner only: it has password hashes, but no secret key.
- It is restored into an empty database and folder only, and each table is checked against its digest.
"""

import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from workbench.errors import WorkbenchError
from workbench.team.store import migrate
from workbench.team.store.migrate import digest_of_lines, digests, is_empty, read_lines, snapshot, tables_of, write_lines
from workbench.team.store.store import Store, now

FOLDERS = ("jobs", "programs")
"""Folders of the data folder that are backed up: job events, and code of registered programs."""
FORMAT = 1
_MANIFEST = "manifest.json"


class BackupError(WorkbenchError):
    """A backup cannot be created, read or restored."""


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """Version, row counts and digests of the tables, and the number of `files` in the folders."""

    format: int
    version: str
    made: float
    rows: dict[str, int]
    digests: dict[str, str]
    files: int


def backup(store: Store, data: Path, path: Path) -> BackupManifest:
    version = migrate.current(store)
    if version is None:
        raise BackupError("This database has no tables yet.", ["start the server once to create them"])
    with _new_archive(path) as archive:
        rows, sums = _add_tables(store, archive)
        files = sum(_add_folder(archive, data / name, name) for name in FOLDERS)
        manifest = BackupManifest(FORMAT, version, now(), rows, sums, files)
        _add_bytes(archive, _MANIFEST, json.dumps(asdict(manifest), indent=1).encode())
    return manifest


def restore(path: Path, store: Store, data: Path) -> BackupManifest:
    """Restore a backup into an empty database and data folder. Raises `BackupError`; no row or file is left then."""
    with _open_archive(path) as archive:
        manifest = _read_manifest(archive)
        _verify_place(store, data)
        migrate.upgrade(store, manifest.version)
        with store.engine.connect().execution_options(workbench_writes=True) as connection, connection.begin():
            if not is_empty(connection):
                raise BackupError("The database to restore into has rows already.", ["give an empty database"])
            for table in tables_of(connection):
                lines = archive.extractfile(f"tables/{table.name}.jsonl") if f"tables/{table.name}.jsonl" in archive.getnames() else None
                write_lines(connection, table, lines or ())
            different = sorted(name for name, digest in digests(connection).items() if manifest.digests.get(name) != digest)
            if different:
                raise BackupError(f"The rows of {', '.join(different)} differ from the backup.", ["take another backup"])
            _extract_folders(archive, data)
    migrate.upgrade(store)
    return manifest


def _add_tables(store: Store, archive: tarfile.TarFile) -> tuple[dict[str, int], dict[str, str]]:
    rows, sums = {}, {}
    with snapshot(store) as connection:
        for table in tables_of(connection):
            with tempfile.TemporaryFile() as file:
                rows[table.name] = sum(1 for line in read_lines(connection, table) if file.write(line))
                file.seek(0)
                sums[table.name] = digest_of_lines(file)
                info = tarfile.TarInfo(f"tables/{table.name}.jsonl")
                info.size, info.mtime, info.mode = file.tell(), int(now()), 0o600
                file.seek(0)
                archive.addfile(info, file)
    return rows, sums


def _add_folder(archive: tarfile.TarFile, folder: Path, name: str) -> int:
    """Add a folder's files and return their number. A growing file is added with its current length."""
    count = 0
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            info = archive.gettarinfo(arcname=f"{name}/{path.relative_to(folder).as_posix()}", fileobj=file)
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            archive.addfile(info, file)
        count += 1
    return count


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = len(content), int(now()), 0o600
    archive.addfile(info, io.BytesIO(content))


@contextmanager
def _new_archive(path: Path) -> Iterator[tarfile.TarFile]:
    if path.exists():
        raise BackupError(f"The file {path} already exists.", ["choose another name: a backup never replaces a file"])
    draft = path.with_name(f"{path.name}.part")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
            yield archive
            archive.close()
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise BackupError(f"The backup cannot be written to {path}: {error.strerror}.", ["choose a folder with free space"]) from None
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _open_archive(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, "r:gz") as archive:
            yield archive
    except (tarfile.TarError, OSError, EOFError, ValueError, SQLAlchemyError) as error:
        raise BackupError(
            f"{path} is not a whole backup ({type(error).__name__}: {str(error).partition(chr(10))[0][:200]}).", ["take another backup"]
        ) from None


def _read_manifest(archive: tarfile.TarFile) -> BackupManifest:
    try:
        file = archive.extractfile(_MANIFEST)
        manifest = BackupManifest(**json.loads(file.read() if file else b""))
    except (KeyError, TypeError, ValueError):
        raise BackupError("This archive has no manifest of a backup.", ["give a file that `workbench team backup` wrote"]) from None
    if manifest.format != FORMAT:
        raise BackupError(
            f"This backup has format {manifest.format}; this program reads {FORMAT}.", ["install the newest sharding-workbench"]
        )
    return manifest


def _verify_place(store: Store, data: Path) -> None:
    if migrate.current(store) not in (None, migrate.newest()):
        raise BackupError("The database to restore into has tables of another version.", ["give an empty database"])
    taken = [name for name in FOLDERS if (data / name).exists() and any((data / name).iterdir())]
    if taken:
        raise BackupError(f"{data} already has {' and '.join(taken)}.", ["give an empty data folder"])


def _extract_folders(archive: tarfile.TarFile, data: Path) -> None:
    """Extract only regular files into the known folders, because an archive may be untrusted."""
    members = [member for member in archive.getmembers() if member.isfile() and member.name.split("/")[0] in FOLDERS]
    archive.extractall(data, members, filter="data")


class MoveError(WorkbenchError):
    """The store cannot be moved."""


def move(source: Store, target: Store) -> dict[str, int]:
    """Copy all rows into an empty database in one transaction, compare both, and return the number of rows per table.
    The source must not be served meanwhile; SQLite writers wait. Raises `MoveError` and `MigrationError`.
    """
    _verify_version(source)
    migrate.upgrade(target)
    with snapshot(source, locked=True) as read, target.engine.connect().execution_options(workbench_writes=True) as write, write.begin():
        if not is_empty(write):
            raise MoveError("The database to move to has rows already.", ["give an empty database"])
        targets = {table.name: table for table in tables_of(write)}
        counts = {table.name: write_lines(write, targets[table.name], read_lines(read, table)) for table in tables_of(read)}
        target_digests = digests(write)
        different = sorted(name for name, digest in digests(read).items() if target_digests[name] != digest)
        if different:
            raise MoveError(f"The rows of {', '.join(different)} differ there; nothing was moved.", ["report this as a bug"])
    return counts


def _verify_version(source: Store) -> None:
    present = migrate.current(source)
    if present != migrate.newest():
        raise MoveError(
            f"The tables are of version `{present}`; only version `{migrate.newest()}` can be moved.",
            ["start the server once to upgrade them"],
        )
