"""The disk cache: files that are not synced one by one; unreadable ones are deleted and created again.

A compiled plan is a JSON record line and the serialized module, compressed.
"""

import gzip
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from workbench.core.parse_untrusted import open_plain
from workbench.reports.compiled import Compiled, CompiledCollective, CompiledKernel, CompiledMemory, Rematerialised

Found = TypeVar("Found")

LIMIT = 1 << 30
"""Maximal bytes of the cache; the least recently used files are deleted first."""
_UNFINISHED = 86_400.0  # age in seconds at which an unfinished file is attributed to a killed process


def cache_folder() -> Path:
    """Return `$WORKBENCH_CACHE`, else the user's cache folder."""
    if configured := os.environ.get("WORKBENCH_CACHE"):
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sharding-workbench"


def hash_key(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part.encode())
    return digest.hexdigest()


def load_file(name: str, read: Callable[[IO[bytes]], Found]) -> Found | None:
    """Return what `read` reads from a file of the cache, if there is one; damaged files are deleted."""
    try:
        path = cache_folder() / name
    except RuntimeError:  # a user without a home directory
        return None
    try:
        with open_plain(path) as file:
            found = read(file)
    except FileNotFoundError:
        return None
    except Exception:  # noqa: BLE001 - with damaged data gzip, JSON and the record may raise anything (`zlib.error`, `RecursionError`)
        with suppress(OSError):
            path.unlink()
        return None
    with suppress(OSError):
        path.touch()
    return found


def store_file(name: str, content: bytes, make_room: Callable[[Path], None]) -> None:
    """Store a file, then call `make_room` with its folder; a full or read-only disk is no error."""
    with suppress(OSError, RuntimeError):
        path = cache_folder() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        try:
            unfinished.write_bytes(content)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        make_room(path.parent)


def load(key: str) -> tuple[Compiled, bytes] | None:
    """Return the record and the serialized module stored under a key, if any."""
    return load_file(f"compiled/{key}.gz", _read)


def store(key: str, compiled: Compiled, module: bytes, limit: int = LIMIT) -> None:
    content = json.dumps(asdict(compiled)).encode() + b"\n" + module
    store_file(f"compiled/{key}.gz", gzip.compress(content, compresslevel=5), partial(_make_room, limit=limit))


def _read(compressed: IO[bytes]) -> tuple[Compiled, bytes]:
    with gzip.open(compressed) as file:
        record, module = file.readline(), file.read()
    return replace(_parse_compiled(json.loads(record)), from_cache=True), module


def _make_room(where: Path, limit: int) -> None:
    for path in where.iterdir():
        if path.suffix != ".gz" and time.time() - path.stat().st_mtime > _UNFINISHED:
            path.unlink(missing_ok=True)
    files = sorted(((path.stat().st_mtime, path.stat().st_size, path) for path in where.glob("*.gz")), reverse=True)
    total = 0
    for _, size, file in files:
        total += size
        if total > limit:
            file.unlink(missing_ok=True)


def _parse_compiled(record: Mapping[str, Any]) -> Compiled:
    return Compiled(
        **{
            **record,
            "memory": CompiledMemory(**record["memory"]),
            "collectives": tuple(CompiledCollective(**_lists_to_tuples(entry)) for entry in record["collectives"]),
            "kernels": tuple(CompiledKernel(**entry) for entry in record["kernels"]),
            "rematerialised": tuple(Rematerialised(**entry) for entry in record.get("rematerialised", ())),
            "alive": tuple((name, count) for name, count in record["alive"]),
            "alive_at_peak": tuple((path, count) for path, count in record["alive_at_peak"]),
            "stages": tuple(_parse_compiled(entry) for entry in record.get("stages", ())),
        }
    )


def _lists_to_tuples(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
