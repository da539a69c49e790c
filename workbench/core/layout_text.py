"""Parse the text form of a layout; `Layout` prints it."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from workbench.core.sharding import Sharding
from workbench.errors import LayoutError

Rules = tuple[tuple[str, tuple[str, ...]], ...]
Entries = tuple[tuple[str, Sharding], ...]

MOST_STATEMENTS = 1_000
"""Maximum statements of a layout; each pattern is matched against every argument or value. Large layouts have dozens."""
MOST_LETTERS = 500
"""Maximum characters of a pattern or place; the longest model paths have about a hundred."""
DIRECTIONS = ("none", "forward", "backward")  # directions in which a barrier allows propagation
_AXES = r"(?P<axes>[^\s:=@\[\]+?]+(?:\+[^\s:=@\[\]+?]+)*)(?:\s+p(?P<priority>-?\d{1,9}))?"
_RULE = re.compile(rf"(?P<dim>[^\s:=@\[\]]+)\s*:\s*{_AXES}")
_UNBRACKETED = re.compile(rf"(?P<name>[^\s:=@\[\]]+)\s*=\s*{_AXES}")  # matches the common mistake `I=x`
_GROUP = re.compile(r"group\s*\[(?P<places>[^\[\]]*)\]")
_BARRIER = re.compile(r"barrier\s*\[(?P<place>[^\[\],]*)\](?:\s*allows:(?P<allows>\w+))?")
_TURNS = re.compile(r"turns\s*\[(?P<loop>[^\[\],]+)\]\s*=\s*(?P<count>\d{1,9})")


class Statements(NamedTuple):
    rules: Rules
    overrides: Entries
    constraints: Entries
    priorities: tuple[tuple[str, int], ...]
    groups: tuple[tuple[str, ...], ...]
    barriers: tuple[tuple[str, str], ...]
    turns: tuple[tuple[str, int], ...]


def parse_statements(text: str) -> Statements:
    """Parse the statements of a layout. Raises `LayoutError` if one is invalid."""
    entries_of_kind: dict[str, list[object]] = {name: [] for name in Statements._fields}
    for statement in _split_statements(text):
        if word := statement.strip():
            for kind, entry in _parse_statement(word):
                entries_of_kind[kind].append(entry)
    return Statements(*(tuple(entries) for entries in entries_of_kind.values()))  # type: ignore[arg-type]


def _split_statements(text: str) -> list[str]:
    """Split at `;`, line ends and `,` outside brackets; scans from the end to know which bracket comes next."""
    parts, end, is_inside = [], len(text), False
    for position in range(len(text) - 1, -1, -1):
        letter = text[position]
        if letter in "[]":
            is_inside = letter == "]"
        elif letter in ";\n" or (letter == "," and not is_inside):
            parts.append(text[position + 1 : end])
            end = position
    return [text[:end], *reversed(parts)]


def _parse_statement(word: str) -> Iterator[tuple[str, object]]:
    if "=[" in word.replace(" ", ""):
        pattern, _, sharding = word.partition("=")
        before, _, named = pattern.rstrip().rpartition(" ")
        if _RULE.fullmatch(before.strip()):
            raise LayoutError(f"`{word[:80]}` is not a layout statement.", [f"put `;` between two: `{before.strip()}; {named}={sharding}`"])
        yield "constraints" if word.startswith("@") else "overrides", (pattern.strip().removeprefix("@"), Sharding.parse(sharding))
    elif match := _GROUP.fullmatch(word):
        yield "groups", tuple(place.strip() for place in match["places"].split(",") if place.strip())
    elif match := _BARRIER.fullmatch(word):
        yield "barriers", (match["place"].strip(), match["allows"] or "none")
    elif match := _TURNS.fullmatch(word):
        yield "turns", (match["loop"].strip(), int(match["count"]))
    elif match := _RULE.fullmatch(word):
        yield "rules", (match["dim"], tuple(match["axes"].split("+")))
        if match["priority"]:
            yield "priorities", (match["dim"], int(match["priority"]))
    else:
        raise LayoutError(
            f"`{word[:80]}` is not a layout statement.",
            _suggest_correction(word)
            or [
                "a rule is `d_ff:model`",
                "an override `params/w=[data, -]`",
                "a constraint `@mlp/dot_general=[data, ?, model]`",
                "a group `group[@q/dot_general, @k/dot_general]`",
                "a barrier `barrier[@mlp/dot_general]`",
                "the iterations of a loop `turns[solve/while]=8`",
            ],
        )


def _suggest_correction(word: str) -> list[str]:
    pieces = word.split()
    if len(pieces) > 1 and all(_RULE.fullmatch(each) for each in pieces):
        return [f"put `;` between two: `{'; '.join(pieces)[:80]}`"]
    if match := _UNBRACKETED.fullmatch(word[:MOST_LETTERS]):
        name, axes = match["name"], match["axes"]
        return [f"write `{name}:{axes}` for a dimension", f"write `{name}=[{axes}, -]`, one entry per dimension, for a tensor"]
    return []


def parse_axes(text: str) -> tuple[tuple[str, ...], int]:
    """Parse the axes and priority of a rule, such as `model` or `data+pipe p1`."""
    match = re.fullmatch(_AXES, text.strip())
    return (tuple(match["axes"].split("+")), int(match["priority"] or 0)) if match else (tuple(text.split("+")), 0)


def axes_text(axes: tuple[str, ...], priority: int) -> str:
    """Format axes and priority; the inverse of `parse_axes`."""
    return f"{'+'.join(axes)} p{priority}" if priority else "+".join(axes)


def group_text(places: tuple[str, ...]) -> str:
    return f"group[{', '.join(places)}]"


def barrier_text(place: str, allows: str) -> str:
    return f"barrier[{place}]" + ("" if allows == "none" else f" allows:{allows}")
