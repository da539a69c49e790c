"""A real PostgreSQL for tests, where a server is installed: started once in a process, on a Unix socket, with a database for each test."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

OWNER = "postgres"


def _command(name: str) -> str | None:
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: path.parts[-3].zfill(3))
    return shutil.which(name) or (str(newest[-1]) if newest else None)


def _as_owner() -> list[str]:
    """PostgreSQL refuses to run as root: it runs as its own user then."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups", "--"]


def missing() -> str:
    """Why there can be no server; empty if there can."""
    if not (_command("initdb") and _command("postgres") and _command("pg_ctl")):
        return "no PostgreSQL server is installed"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(OWNER)
        except KeyError:
            return f"PostgreSQL does not run as root, and there is no user {OWNER}"
        if not shutil.which("setpriv"):
            return "PostgreSQL does not run as root, and there is no setpriv"
    return ""


@contextmanager
def running_postgres() -> Iterator[Path]:
    """The folder of the socket of a server that runs meanwhile."""
    if reason := missing():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(folder, OWNER, OWNER)
    data = folder / "data"
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off -c full_page_writes=off -c max_connections=30"
    try:
        _run(folder, "initdb", "-D", data, "-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        _run(folder, "pg_ctl", "-D", data, "-w", "-t", "60", "-l", folder / "log", "-o", options, "start")
        yield folder
    finally:
        if (data / "postmaster.pid").exists():
            _run(folder, "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _run(folder: Path, name: str, *arguments: object) -> None:
    command = [*_as_owner(), str(_command(name)), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def new_database(folder: Path, name: str) -> Iterator[str]:
    """The address of an empty database, which is dropped afterwards."""
    with psycopg.connect(host=str(folder), user=OWNER, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"postgresql://{OWNER}@/{name}?host={folder}"
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
