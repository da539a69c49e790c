"""Parse untrusted texts with limits on length, depth, number and type of values, and open files safely.

Input within the limits is parsed in well under a second; each limit is far above normal use.
"""

import errno
import json
import math
import os
import re
import stat
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

from workbench.errors import DocumentError, wrong_type

MOST_TEXT = 1 << 20
"""Characters of a document; a plan with a thousand statements has 60,000, a fleet of a thousand models 80,000."""
MOST_LEVELS = 16
"""Nesting levels of lists and tables; a plan has four."""
MOST_VALUES = 100_000
"""Entries of all lists and tables together; the schema checks each of them."""
MOST_DIGITS = 40
"""Digits of an integer; sizes beyond 64 bits are rejected later, and Python refuses to print 4,300 digits."""

_GRAMMARS = "rfc3987_syntax"
_DOTTED = re.compile(rf"""(?<![\w.-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MOST_LEVELS},}}""")


class UnreadableError(ValueError):
    """A parse error, worded as the end of a sentence: `line 3 ends too soon`."""


def read_text(path: Path, most: int = MOST_TEXT) -> str:
    """Read a regular file without its byte order mark, up to `most` + 1 characters. Raises `OSError` and `UnicodeDecodeError`."""
    with TextIOWrapper(open_plain(path), encoding="utf-8-sig") as stream:
        return stream.read(most + 1)


def verify_length(text: str, name: str, kind: str) -> None:
    """Raise `DocumentError` if a text is too long to be a document."""
    if len(text) > MOST_TEXT:
        raise DocumentError(
            f"{name} is not a {kind}: it has more than {MOST_TEXT:,} characters.", ["choose another file", "remove optional entries"]
        )


def parse_json(text: str) -> Any:
    """Parse JSON. Raises `UnreadableError`, also for duplicate keys."""
    return _parse_bounded(
        lambda: json.loads(text, object_pairs_hook=_object_without_repeats, parse_constant=_refuse_constant, parse_int=_bounded_integer)
    )


def parse_toml(text: str, *, with_infinity: bool = False) -> Any:
    """Parse TOML; `inf` is accepted only `with_infinity`. Raises `UnreadableError`."""
    if match := _DOTTED.search(text):
        line = text.count("\n", 0, match.start()) + 1
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
    level, count = [root], 0
    for _ in range(MOST_LEVELS + 1):
        count += len(level)
        if count > MOST_VALUES:
            raise UnreadableError(f"it has more than {MOST_VALUES:,} entries")
        level = [inner for value in level for inner in _inner_values(value, with_infinity)]
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
    """Parse an integer of limited length; Python refuses to read or print thousands of digits."""
    if len(given) > MOST_DIGITS if isinstance(given, str) else abs(given) >= 10**MOST_DIGITS:
        raise UnreadableError(_TOO_LONG)
    return int(given)


def _refuse_constant(text: str) -> Any:
    raise UnreadableError(f"{text} is not a valid number")


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; Python would silently keep the last of two entries with the same key."""
    entries: dict[str, Any] = {}
    for key, value in pairs:
        if key in entries:
            raise UnreadableError(f'"{key[:80]}" occurs twice in one object')
        entries[key] = value
    return entries


def import_jsonschema() -> None:
    """Import jsonschema without the 38 URL grammars (with JupyterLab), which take 2.6 s and check only non-ASCII URLs."""
    if "jsonschema" in sys.modules or _GRAMMARS in sys.modules:
        return
    sys.modules[_GRAMMARS] = None  # type: ignore[assignment]
    try:
        import jsonschema  # noqa: F401
    finally:
        del sys.modules[_GRAMMARS]


# Open regular files only, since somebody else may have put them there: a pipe would block its reader, and a device has no end.

_FLAGS = ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY")  # as far as this system has them


def open_plain(path: Path, *, follow_links: bool = True) -> BinaryIO:
    """Open a regular file to read bytes. Raises `OSError` for others, and for a link unless `follow_links`."""
    flags = (*_FLAGS, *(() if follow_links else ("O_NOFOLLOW",)))
    number = os.open(path, os.O_RDONLY | sum(getattr(os, flag, 0) for flag in flags))
    try:
        verify_regular(os.fstat(number))
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def verify_regular(status: os.stat_result) -> None:
    """Raise `OSError` if `status` is not of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe, a device or a socket; only regular files are read")


# Names of modules and functions whose programs a document may name.

ALLOW_VARIABLE = "WORKBENCH_ALLOW"
"""Environment variable that allows modules without a command line, as in a Jupyter server."""

_WAY_OUT = 'name modules, "mine" or "mine,other.models", or one function of a module, "mine:build"'


def read_allowed(given: str | Iterable[str]) -> tuple[str, ...]:
    """Modules and functions that documents may name, from comma-separated texts.

    >>> read_allowed("mine, other.models:build")
    ('mine', 'other.models:build')

    Raises `DocumentError` for an invalid name.
    """
    texts = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(item, str) for item in texts):
        raise DocumentError(wrong_type("allow", given, "names of modules"), [_WAY_OUT])
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    for name in names:
        module, colon, function = name.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), *([function] if colon else []))):
            raise DocumentError(f"`{name[:80]}` does not name a module.", [_WAY_OUT])
    return tuple(dict.fromkeys(names))


def read_allowed_here() -> tuple[str, ...]:
    """The names allowed by the environment. Raises `DocumentError` for an invalid name."""
    return read_allowed(os.environ.get(ALLOW_VARIABLE, ""))
