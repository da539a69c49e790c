"""The lines of a journal: JSON, each with a checksum that also covers the lines before it, so that none can be missing or out of place.

    {"crc":"5c28a1f0","record":{"now":3}}

A line that is incomplete after a power failure, or damaged since, ends what can be read: the lines before it are valid.
"""

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_LINE = re.compile(rb'\{"crc":"([0-9a-f]{8})","record":(.*)\}', re.DOTALL)

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JournalLine:
    """A complete line: its record, the `chain` of checksums up to it, and its `end` as a byte offset in the file."""

    record: Record
    chain: int
    end: int


def line_bytes(record: Record, chain: int) -> tuple[bytes, int]:
    """Encode the next line after those whose checksums are `chain` (0 for the first), and the chain with it."""
    body = json.dumps(record, separators=(",", ":")).encode()
    chain = zlib.crc32(body, chain)
    return b'{"crc":"%08x","record":%s}\n' % (chain, body), chain


def parse_lines(content: bytes) -> list[JournalLine]:
    """The lines up to the first that is incomplete or damaged.

    >>> first, chain = line_bytes({"now": 0}, 0)
    >>> second, _ = line_bytes({"now": 1}, chain)
    >>> [line.record["now"] for line in parse_lines(first + second)], parse_lines(second), len(parse_lines(first + second[:-1]))
    ([0, 1], [], 1)
    """
    lines: list[JournalLine] = []
    chain = end = 0
    for raw in content.splitlines(keepends=True):
        found = _LINE.fullmatch(raw[:-1]) if raw.endswith(b"\n") else None
        if found is None or zlib.crc32(found[2], chain) != int(found[1], 16):
            break
        chain, end = int(found[1], 16), end + len(raw)
        lines.append(JournalLine(json.loads(found[2]), chain, end))
    return lines


def is_torn(content: bytes, lines: Iterable[JournalLine]) -> bool:
    """Whether the complete lines are followed by at most one incomplete line: nothing was lost that had been written."""
    end = max((line.end for line in lines), default=0)
    return b"\n" not in content[end:]
