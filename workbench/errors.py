"""Errors for users, in terms of the names they wrote.

Each text says what is wrong, shows the arithmetic, and ends with suggestions:

    LayoutError: `params/w1` is float32[d_model=1024, d_ff=4096]; the layout puts `d_ff` (4096) on mesh axis
    `model` (6), and 4096 % 6 = 4.
      Try: make `model` 4 or 8 · put `d_ff` on `data` (8 divides it) · leave `d_ff` whole.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher, get_close_matches
from reprlib import repr as short_repr
from textwrap import indent
from typing import Any

_SHOWN_TYPES = (type(None), bool, int, float, str, list, tuple, dict)  # shown by value; other types by name
_LEAST_SIMILARITY = 0.6  # minimum `difflib` ratio for a suggestion, as in `get_close_matches`


class WorkbenchError(Exception):
    """An error that the user can fix; its text is complete for a page or terminal.

    `detail` is the full text of JAX or XLA if the message has only its beginning; a page folds it.
    """

    def __init__(self, message: str, ways_out: Iterable[str] = (), detail: str = "") -> None:
        self.message = message
        self.ways_out = tuple(ways_out)
        self.detail = "" if detail.strip() in message else detail.strip()
        super().__init__(*self.parts)

    @property
    def parts(self) -> tuple[Any, ...]:
        """The arguments that recreate the error elsewhere."""
        return (self.message, self.ways_out, self.detail) if self.detail else (self.message, self.ways_out)

    def __str__(self) -> str:
        text = f"{self.message}\n  {ways_out_text(self.ways_out)}".rstrip()
        return text + (f"\n  In full:\n{indent(self.detail, '    ')}" if self.detail else "")


def ways_out_text(ways_out: Iterable[str]) -> str:
    """Format suggestions as `Try: make it 4 · leave it whole.`, after questions such as `Did you mean it?`."""
    ways = tuple(ways_out)
    questions = [f"{way[:1].upper()}{way[1:]}" for way in ways if way.endswith("?")]
    others = " · ".join(way for way in ways if not way.endswith("?"))
    return " ".join([*questions, *([f"Try: {others}."] if others else [])])


@contextmanager
def explain_os_errors(problem: str, kind: type[WorkbenchError], *ways_out: str) -> Iterator[None]:
    """Convert an `OSError` to an error of class `kind`: `problem`, and the reason of the operating system."""
    try:
        yield
    except OSError as error:
        raise kind(f"{problem}: {error.strerror or error}.", ways_out) from None


@contextmanager
def explain_read_errors(path: object, not_text: WorkbenchError) -> Iterator[None]:
    """Convert errors on reading `path`: `not_text` is raised for bytes that are not UTF-8, an error of its class for others."""
    try:
        with explain_os_errors(f"`{path}` cannot be read", type(not_text), "check the path"):
            yield
    except UnicodeDecodeError:
        raise not_text from None


class MeshError(WorkbenchError):
    """An invalid mesh, or an unknown mesh axis."""


class LayoutError(WorkbenchError):
    """A layout that violates a legality rule of Mesh-TensorFlow (Shazeer et al. 2018) or JAX."""


class DimensionError(WorkbenchError):
    """Dimension names that do not fit their tensors."""


class TraceError(WorkbenchError):
    """A function that JAX cannot trace with these arguments."""


class RematError(WorkbenchError):
    """An unknown remat policy, or one for layers or names that this program lacks."""


class PrecisionError(WorkbenchError):
    """An unknown precision, or one that does not apply to this program."""


class OffloadError(WorkbenchError):
    """State that cannot be kept in host memory, or that this program lacks."""


class PartitionError(WorkbenchError):
    """A plan that Shardy or XLA's partitioner rejects."""


class HardwareError(WorkbenchError):
    """Unknown or invalid hardware, or a mesh that does not fit it."""


class PipelineError(WorkbenchError):
    """An invalid pipeline: schedule, number of stages or micro-batches, or a boundary that does not fit the program."""


class FleetError(WorkbenchError):
    """Models that cannot be trained together as requested."""


class RecipeError(WorkbenchError):
    """A recipe that does not apply to a plan, or is already applied."""


class SearchError(WorkbenchError):
    """An invalid search: no choices, or requirements that no plan can meet."""


class DocumentError(WorkbenchError):
    """A file that is not a plan, has a newer version, or names an unavailable program."""


class EngineError(WorkbenchError):
    """A plan that cannot run on the attached devices, or whose worker died."""


def wrong_type(name: str, given: object, expected: str) -> str:
    """Return a message for a value of the wrong type, showing short values and otherwise the type.

    >>> wrong_type("mesh", (4, 2), "axes with names and sizes"), wrong_type("mesh", len, "axes")
    ('`mesh` is (4, 2); it should be axes with names and sizes.', '`mesh` is of type `builtin_function_or_method`; it should be axes.')
    """
    given_text = short_repr(given) if type(given) in _SHOWN_TYPES else f"of type `{type(given).__name__}`"
    return f"`{name}` is {given_text}; it should be {expected}."


def unknown_name(kind: str, name: str, known: Iterable[str], where: str = "") -> tuple[str, tuple[str, ...]]:
    """Return a message and suggestions for an unknown name; `where` is a suffix such as ` in `mine``.

    >>> unknown_name("dimension", "d_f", ["batch", "d_ff"])
    ('There is no dimension `d_f`; there are `batch`, `d_ff`.', ('did you mean `d_ff`?',))
    """
    names, name = list(known), str(name)
    shown = ", ".join(f"`{candidate}`" for candidate in names[:20]) + (" and more" if len(names) > 20 else "")
    same_letters = [candidate for candidate in names if candidate.casefold() == name.casefold()]  # `BATCH` is nearest to `batch`
    close = same_letters or [candidate for candidate in get_close_matches(name, names, n=5) if _are_alike(name, candidate)]
    ways_out = (f"did you mean `{close[0]}`?",) if close else ("use one of these names",) if names else ()
    return f"There is no {kind} `{name[:80]}`{where}; there are {shown or 'none'}.", ways_out


def _are_alike(name: str, other: str) -> bool:
    """Return whether two paths are similar after removing common folders.

    >>> _are_alike("params/heaad", "params/head"), _are_alike("params/nosuch", "params/head"), _are_alike("params/w9", "params/w1")
    (True, False, True)
    """
    own_words, other_words = name.split("/"), other.split("/")
    for end in (0, -1):
        while own_words and other_words and own_words[end] == other_words[end]:
            del own_words[end], other_words[end]
    one, two = "/".join(own_words), "/".join(other_words)
    is_part = one.startswith(two) or two.startswith(one)
    return is_part or re.sub(r"\d+", "", one) == re.sub(r"\d+", "", two) or SequenceMatcher(None, one, two).ratio() >= _LEAST_SIMILARITY


def opening_text(text: str, most: int = 400) -> str:
    r"""Return the first line of a message, with the following lines while it ends with a colon.

    >>> opening_text("sizes do not divide:\n* x has 3\n\nMore."), opening_text("one\ntwo")
    ('sizes do not divide: * x has 3', 'one')
    """
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    count = next((number for number, line in enumerate(lines, 1) if not line.endswith(":")), len(lines))
    return " ".join(lines[:count])[:most]
