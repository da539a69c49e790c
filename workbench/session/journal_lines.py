"""The lines of a journal: JSON, each with a checksum that includes all previous lines, to detect missing or moved lines.

    {"crc":"5c28a1f0","record":{"now":3}}

Reading stops at the first incomplete or damaged line; the lines before it are valid. Long documents of plans are
compressed, since they are repetitive.
"""

import base64
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
    """A complete line: its record, the `chain` of checksums up to it, and its `end` as a byte offset."""

    record: Record
    chain: int
    end: int


def line_bytes(record: Record, chain: int) -> tuple[bytes, int]:
    """Encode the next line after the checksum `chain` (0 for the first), and return the new chain."""
    body = json.dumps(record, separators=(",", ":")).encode()
    chain = zlib.crc32(body, chain)
    return b'{"crc":"%08x","record":%s}\n' % (chain, body), chain


def parse_lines(content: bytes) -> list[JournalLine]:
    """Parse the lines up to the first that is incomplete or damaged.

    >>> first, chain = line_bytes({"now": 0}, 0)
    >>> second, _ = line_bytes({"now": 1}, chain)
    >>> [line.record["now"] for line in parse_lines(first + second)], parse_lines(second), len(parse_lines(first + second[:-1]))
    ([0, 1], [], 1)
    """
    lines: list[JournalLine] = []
    chain = end = 0
    for raw in content.splitlines(keepends=True):
        match = _LINE.fullmatch(raw[:-1]) if raw.endswith(b"\n") else None
        if match is None or zlib.crc32(match[2], chain) != int(match[1], 16):
            break
        chain, end = int(match[1], 16), end + len(raw)
        lines.append(JournalLine(json.loads(match[2]), chain, end))
    return lines


def is_torn(content: bytes, lines: Iterable[JournalLine]) -> bool:
    """Return whether at most one incomplete line follows, so that no completed write was lost."""
    end = max((line.end for line in lines), default=0)
    return b"\n" not in content[end:]


MOST_DOCUMENT = 1 << 24
"""Maximum characters of one plan."""
COMPRESSED_FROM = 2000  # characters above which a document is compressed


def document_record(text: str) -> Record:
    """Encode a plan document, to be read by `read_document`."""
    return {"plan": text} if len(text) < COMPRESSED_FROM else {"packed": base64.b64encode(zlib.compress(text.encode())).decode()}


def read_document(row: Record) -> str:
    """Return the plan document of a row. Raises `ValueError` or `LookupError` if there is none."""
    if "plan" in row:
        return str(row["plan"])
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(base64.b64decode(row["packed"], validate=True), MOST_DOCUMENT)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacker.eof:
        raise ValueError("a plan is cut off")
    return text.decode()
