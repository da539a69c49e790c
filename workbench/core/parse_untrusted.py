"""Read untrusted texts with limits on length, depth, number of values and their types, and open files that somebody else may have put
there.

What is within these limits is parsed and checked in well under a second; each is far above what a person or a program writes.
"""

import errno
import json
import math
import os
import re
import stat
import sys
import tomllib
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

from workbench.errors import DocumentError

MOST_TEXT = 1 << 20
"""Characters of a document. A plan with a thousand statements has some 60,000; a fleet of a thousand models, listed one by one, 80,000."""
MOST_LEVELS = 16
"""Nesting levels of lists and tables. A plan has four."""
MOST_VALUES = 100_000
"""Entries of all lists and tables together; the schema checks every one of them."""
MOST_DIGITS = 40
"""Digits of a whole number: sizes beyond 64 bits are refused where they are used, and Python refuses to print 4,300."""

_GRAMMARS = "rfc3987_syntax"
_DOTTED = re.compile(rf"""(?<![\w.-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MOST_LEVELS},}}""")


class UnreadableError(ValueError):
    """What is wrong with a text, as the end of a sentence: `line 3 ends too soon`."""


def read_text(path: Path, most: int = MOST_TEXT) -> str:
    """The text of a regular file, up to the longest document and one character more; raises `OSError` and `UnicodeDecodeError`."""
    with TextIOWrapper(open_plain(path), encoding="utf-8") as stream:
        return stream.read(most + 1)


def verify_length(text: str, name: str, kind: str) -> None:
    """Raises `DocumentError` for a text that is too long to be a document."""
    if len(text) > MOST_TEXT:
        raise DocumentError(
            f"{name} is no {kind}: it has more than {MOST_TEXT:,} characters.", ["choose another file", "remove optional entries"]
        )


def parse_json(text: str) -> Any:
    """The values of a JSON text. Raises `UnreadableError`; an object with a duplicate key is refused as well."""
    return _parse_bounded(
        lambda: json.loads(text, object_pairs_hook=_object_without_repeats, parse_constant=_refuse_constant, parse_int=_bounded_integer)
    )


def parse_toml(text: str, *, with_infinity: bool = False) -> Any:
    """The values of a TOML text; `inf` is a number `with_infinity` alone. Raises `UnreadableError`."""
    if found := _DOTTED.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise UnreadableError(f"line {line} has more than {MOST_LEVELS} dotted names")
    return _parse_bounded(lambda: tomllib.loads(text), with_infinity)


def _parse_bounded(parse: Callable[[], Any], with_infinity: bool = False) -> Any:
    try:
        values = parse()
    except RecursionError:
        raise UnreadableError(_TOO_DEEP) from None
    except ValueError as error:
        raise UnreadableError(_TOO_LONG if "integer string conversion" in str(error) else str(error)) from None
    _verify_values(values, with_infinity)
    return values


_TOO_LONG = f"a whole number has more than {MOST_DIGITS} digits"
_TOO_DEEP = f"its lists and tables are nested more than {MOST_LEVELS} levels deep"


def _verify_values(root: Any, with_infinity: bool) -> None:
    """Check for numbers, texts, booleans, null, and lists and tables of them, within the limits on depth and number."""
    level, count = [root], 0
    for _ in range(MOST_LEVELS + 1):
        count += len(level)
        if count > MOST_VALUES:
            raise UnreadableError(f"it has more than {MOST_VALUES:,} entries")
        level = [inner for each in level for inner in _inner_values(each, with_infinity)]
        if not level:
            return
    raise UnreadableError(_TOO_DEEP)


def _inner_values(value: Any, with_infinity: bool) -> list[Any]:
    if isinstance(value, Mapping):
        return [*value, *value.values()]
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        _verify_text(value)
    elif isinstance(value, float) and not (math.isfinite(value) or (with_infinity and value == math.inf)):
        raise UnreadableError(f"{value} is not a valid number")
    elif isinstance(value, int):
        _bounded_integer(value)
    elif value is not None and not isinstance(value, float):
        raise UnreadableError(f"{str(value)[:80]} is of type {type(value).__name__}; write it as text")
    return []


def _verify_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnreadableError(f"{text[:80]!a} contains half a character") from None


def _bounded_integer(given: str | int) -> int:
    """An integer of limited length: Python itself refuses to read or to print numbers of thousands of digits."""
    if len(given) > MOST_DIGITS if isinstance(given, str) else abs(given) >= 10**MOST_DIGITS:
        raise UnreadableError(_TOO_LONG)
    return int(given)


def _refuse_constant(text: str) -> Any:
    raise UnreadableError(f"{text} is not a valid number")


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; Python would silently keep the last of two entries with the same key."""
    known: dict[str, Any] = {}
    for key, value in pairs:
        if key in known:
            raise UnreadableError(f'"{key[:80]}" occurs twice in one object')
        known[key] = value
    return known


def import_jsonschema() -> None:
    """Import jsonschema, which is only done where something is checked.

    Where JupyterLab is installed, jsonschema would then compile 38 grammars, to check URLs with non-ASCII letters, which takes 2.6 s. No
    document of ours has such a URL, so the grammars are hidden from it.
    """
    if "jsonschema" in sys.modules or _GRAMMARS in sys.modules:
        return
    sys.modules[_GRAMMARS] = None  # type: ignore[assignment]
    try:
        import jsonschema  # noqa: F401
    finally:
        del sys.modules[_GRAMMARS]


# Open files that somebody else may have put there: regular files alone. A pipe would make its reader wait, and a device has no end.

_FLAGS = ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY")  # those that this system has


def open_plain(path: Path, *, follow_links: bool = True) -> BinaryIO:
    """A regular file, opened to read bytes. Raises `OSError` for a pipe, a device, a socket or a folder, and for a link that is not to be
    followed."""
    flags = (*_FLAGS, *(() if follow_links else ("O_NOFOLLOW",)))
    number = os.open(path, os.O_RDONLY | sum(getattr(os, each, 0) for each in flags))
    try:
        verify_regular(os.fstat(number))
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def verify_regular(status: os.stat_result) -> None:
    """Raises `OSError` for what is no regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe, a device or a socket; only regular files are read")
