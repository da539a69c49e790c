"""A content-addressed cache of compiled plans on disk: the record as a line of JSON followed by the serialised module, compressed.

It is only a cache: files are not synced to the disk one by one, and one that cannot be read is deleted and made anew.
"""

import gzip
import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from workbench.core.parse_untrusted import open_plain
from workbench.reports.compiled import Compiled, CompiledCollective, CompiledKernel, CompiledMemory, Rematerialised

LIMIT = 1 << 30
"""Bytes the cache may take; the least recently used files are deleted first."""
_UNFINISHED = 86_400.0  # seconds after which an unfinished file is taken to be left by a process that was killed


def cache_folder() -> Path:
    """`$WORKBENCH_CACHE`, else the user's own cache folder."""
    if configured := os.environ.get("WORKBENCH_CACHE"):
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sharding-workbench"


def hash_key(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part.encode())
    return digest.hexdigest()


def load(key: str) -> tuple[Compiled, bytes] | None:
    """The record and the serialised module stored under a key; damaged files are removed."""
    try:
        path = _path(key)
    except RuntimeError:  # a user without a home directory
        return None
    try:
        with open_plain(path) as raw, gzip.open(raw) as file:
            record, module = file.readline(), file.read()
        compiled = replace(_parse_compiled(json.loads(record)), from_cache=True)
    except FileNotFoundError:
        return None
    except Exception:  # noqa: BLE001 - with damaged data gzip, JSON and the record may raise anything (`zlib.error`, `RecursionError`)
        with suppress(OSError):
            path.unlink()
        return None
    with suppress(OSError):
        path.touch()
    return compiled, module


def store(key: str, compiled: Compiled, module: bytes, limit: int = LIMIT) -> None:
    """Store a record; a disk that is full or not writable is no error."""
    with suppress(OSError, RuntimeError):
        path = _path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        try:
            with gzip.open(unfinished, "wb", compresslevel=5) as file:
                file.write(json.dumps(asdict(compiled)).encode() + b"\n" + module)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        _make_room(path.parent, limit)


def _path(key: str) -> Path:
    """The file of a key. Raises `RuntimeError` for a user without a home directory, where no other folder is named."""
    return cache_folder() / "compiled" / f"{key}.gz"


def _make_room(where: Path, limit: int) -> None:
    """Keep the cache within its limit by deleting what was used least recently, and what killed processes left behind."""
    for each in where.iterdir():
        if each.suffix != ".gz" and time.time() - each.stat().st_mtime > _UNFINISHED:
            each.unlink(missing_ok=True)
    files = sorted(((each.stat().st_mtime, each.stat().st_size, each) for each in where.glob("*.gz")), reverse=True)
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
            "collectives": tuple(CompiledCollective(**_lists_to_tuples(each)) for each in record["collectives"]),
            "kernels": tuple(CompiledKernel(**each) for each in record["kernels"]),
            "rematerialised": tuple(Rematerialised(**each) for each in record.get("rematerialised", ())),
            "alive": tuple((name, count) for name, count in record["alive"]),
            "alive_at_peak": tuple((path, count) for path, count in record["alive_at_peak"]),
            "stages": tuple(_parse_compiled(each) for each in record.get("stages", ())),
        }
    )


def _lists_to_tuples(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
