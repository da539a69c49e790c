"""The small JSON file of a checkpoint: where the arrays are, how far the model has trained, and a checksum of the record itself."""

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from workbench.core.plain_files import open_plain
from workbench.engine.fleet.checkpoint_arrays import ArrayLocation, Damage
from workbench.engine.fleet.shard_units import Key

_BOOT = Path("/proc/sys/kernel/random/boot_id")  # of Linux: identifies one boot of the machine
_FILE = re.compile(r"\d+\.arrays")  # a record names no file outside of its folder


@dataclass(frozen=True)
class CheckpointRecord:
    """Where the arrays are, and the model's position; `version` counts commits, `boot` identifies the machine's boot."""

    version: int = 0
    locations: Mapping[Key, ArrayLocation] = field(default_factory=dict)
    position: Mapping[str, Any] = field(default_factory=dict)
    boot: str | None = None

    @property
    def files(self) -> set[str]:
        return {each.file for each in self.locations.values()}

    @property
    def text(self) -> str:
        locations = {json.dumps(key): location for key, location in self.locations.items()}
        body = json.dumps({**self.position, "version": self.version, "boot": self.boot, "files": locations})
        return f'{body[:-1]}, "checksum": "{_checksum(body)}"}}'


def read_record(path: Path) -> CheckpointRecord | None:
    """The record in the file; `None` if there is none. Raises `Damage` for one that is empty, torn or changed.

    Checkpoints of older versions have no checksums and are accepted.
    """
    try:
        with open_plain(path) as file:
            text = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Damage(f"`{path.name}` cannot be read: {error.strerror or error}") from error
    if not text.strip(b"\0"):
        raise Damage(f"`{path.name}` is empty")
    try:
        return _record(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damage(f"`{path.name}` is not what was written") from error


def _record(found: dict[str, Any]) -> CheckpointRecord:
    checksum = found.pop("checksum", None)
    if checksum is not None and checksum != _checksum(json.dumps(found)):
        raise ValueError(checksum)
    boot, version = found.pop("boot"), found.pop("version")
    locations = {tuple(json.loads(key)): ArrayLocation(*location) for key, location in found.pop("files").items()}
    if checksum is None and any(each.checksum for each in locations.values()):
        raise ValueError(checksum)
    if not isinstance(version, int) or not all(_FILE.fullmatch(each.file) and each.begin >= 0 for each in locations.values()):
        raise ValueError(version)
    return CheckpointRecord(version, locations, found, boot)


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


@cache
def this_boot() -> str | None:
    """An identifier of the machine's current boot, where it is available."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return None
