"""One family of errors, spoken in the user's names.

Each text says what is wrong in the words the user wrote, shows the arithmetic, and ends with suggestions:

    LayoutError: `params/w1` is float32[d_model=1024, d_ff=4096]; the layout puts `d_ff` (4096) on mesh axis
    `model` (6), and 4096 % 6 = 4.
      Try: make `model` 4 or 8 · put `d_ff` on `data` (8 divides it) · leave `d_ff` whole.
"""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from reprlib import repr as short_repr
from textwrap import indent
from typing import Any

_SHOWN_TYPES = (type(None), bool, int, float, str, list, tuple, dict)  # whose text says more than their type
_LEAST_SIMILARITY = 0.6  # the least ratio of `difflib` that is worth a question, as in `get_close_matches`


class WorkbenchError(Exception):
    """Something the user can fix. The text is all a page or a terminal needs to show.

    `detail` is what JAX or XLA said, whole, where the message has only the beginning; a page folds it.
    """

    def __init__(self, message: str, ways_out: Iterable[str] = (), detail: str = "") -> None:
        self.message = message
        self.ways_out = tuple(ways_out)
        self.detail = "" if detail.strip() in message else detail.strip()
        super().__init__(*self.parts)

    @property
    def parts(self) -> tuple[Any, ...]:
        """What the error is made of, to make it again elsewhere."""
        return (self.message, self.ways_out, self.detail) if self.detail else (self.message, self.ways_out)

    def __str__(self) -> str:
        text = f"{self.message}\n  {ways_out_text(self.ways_out)}".rstrip()
        return text + (f"\n  In full:\n{indent(self.detail, '    ')}" if self.detail else "")


def ways_out_text(ways_out: Iterable[str]) -> str:
    """Text `Try: make it 4 · leave it whole.`, after the question `Did you mean it?` where there is one; empty without suggestions."""
    ways = tuple(ways_out)
    questions = [f"{each[:1].upper()}{each[1:]}" for each in ways if each.endswith("?")]
    others = " · ".join(each for each in ways if not each.endswith("?"))
    return " ".join([*questions, *([f"Try: {others}."] if others else [])])


class MeshError(WorkbenchError):
    """A mesh that cannot exist, or an axis that is not in it."""


class LayoutError(WorkbenchError):
    """A layout that breaks a rule of legality (Mesh-TensorFlow's M3 to M7)."""


class DimensionError(WorkbenchError):
    """Dimension names that do not fit the tensors they are given to."""


class TraceError(WorkbenchError):
    """A function that JAX cannot trace with these arguments."""


class RematError(WorkbenchError):
    """A remat policy that does not exist, or that this program has no layers or names for."""


class PrecisionError(WorkbenchError):
    """A precision that does not exist, or that has no meaning for this program."""


class OffloadError(WorkbenchError):
    """State that cannot be kept in the host's memory, or that this program does not have."""


class PartitionError(WorkbenchError):
    """A plan that Shardy refuses."""


class HardwareError(WorkbenchError):
    """Hardware that does not exist, is not in the catalogue, or that a mesh cannot be laid over."""


class PipelineError(WorkbenchError):
    """A pipeline that cannot be: a schedule, a number of stages or micro-batches, a boundary that does not go with the program."""


class FleetError(WorkbenchError):
    """Models that cannot be trained together as asked."""


class RecipeError(WorkbenchError):
    """A recipe that does not apply to a plan, or is there already."""


class SearchError(WorkbenchError):
    """A search that cannot be made: nothing to choose from, or requirements that no plan can keep."""


class DocumentError(WorkbenchError):
    """A file that is not a plan, is of a newer version, or names a program that is not here."""


class EngineError(WorkbenchError):
    """A plan that cannot run on the attached devices, or whose worker died."""


def wrong_type(name: str, given: object, expected: str) -> str:
    """Message for a value of a type that has no meaning where it was given; what prints at length, an array, is told by its type alone.

    >>> wrong_type("mesh", (4, 2), "axes with names and sizes"), wrong_type("mesh", len, "axes")
    ('`mesh` is (4, 2); it should be axes with names and sizes.', '`mesh` is of type `builtin_function_or_method`; it should be axes.')
    """
    given_text = short_repr(given) if type(given) in _SHOWN_TYPES else f"of type `{type(given).__name__}`"
    return f"`{name}` is {given_text}; it should be {expected}."


def unknown_name(kind: str, name: str, known: Iterable[str], where: str = "") -> tuple[str, tuple[str, ...]]:
    """Message and suggestions for a name that does not exist (` in `mine``): nearest first, then all of them.

    >>> unknown_name("dimension", "d_f", ["batch", "d_ff"])
    ('There is no dimension `d_f`; there are `batch`, `d_ff`.', ('did you mean `d_ff`?',))
    """
    names, name = list(known), str(name)
    shown = ", ".join(f"`{each}`" for each in names[:20]) + (" and more" if len(names) > 20 else "")
    alike = [each for each in names if each.casefold() == name.casefold()]  # `BATCH` is nearest to `batch`
    close = alike or [each for each in get_close_matches(name, names, n=5) if _are_alike(name, each)]
    ways_out = (f"did you mean `{close[0]}`?",) if close else ("use one of these names",) if names else ()
    return f"There is no {kind} `{name[:80]}`{where}; there are {shown or 'none'}.", ways_out


def _are_alike(name: str, other: str) -> bool:
    """Whether two paths are alike where they differ: folders that they share say nothing.

    >>> _are_alike("params/heaad", "params/head"), _are_alike("params/nosuch", "params/head"), _are_alike("params/w9", "params/w1")
    (True, False, True)
    """
    mine, its = name.split("/"), other.split("/")
    for end in (0, -1):
        while mine and its and mine[end] == its[end]:
            del mine[end], its[end]
    one, two = "/".join(mine), "/".join(its)
    is_part = one.startswith(two) or two.startswith(one)
    return is_part or re.sub(r"\d+", "", one) == re.sub(r"\d+", "", two) or SequenceMatcher(None, one, two).ratio() >= _LEAST_SIMILARITY


def opening_text(text: str, most: int = 400) -> str:
    """The first line of a message, with those that follow while it ends with a colon.

    >>> opening_text("sizes do not divide:\\n* x has 3\\n\\nMore."), opening_text("one\\ntwo")
    ('sizes do not divide: * x has 3', 'one')
    """
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    count = next((number for number, line in enumerate(lines, 1) if not line.endswith(":")), len(lines))
    return " ".join(lines[:count])[:most]
