"""Parser of a layout's text form: statements between `;`, each recognised by its form. `Layout` prints it."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from workbench.core.sharding import Sharding
from workbench.errors import LayoutError

Rules = tuple[tuple[str, tuple[str, ...]], ...]
Entries = tuple[tuple[str, Sharding], ...]

MOST_STATEMENTS = 1_000
"""Statements of a layout. Each pattern is tried on every argument or value of a program; the largest layouts so far have some dozens."""
MOST_LETTERS = 500
"""Characters of a pattern or a place; the longest paths of models have about a hundred."""
DIRECTIONS = ("none", "forward", "backward")  # what a barrier lets through
_AXES = r"(?P<axes>[^\s:=@\[\]+?]+(?:\+[^\s:=@\[\]+?]+)*)(?:\s+p(?P<priority>-?\d{1,9}))?"
_RULE = re.compile(rf"(?P<dim>[^\s:=@\[\]]+)\s*:\s*{_AXES}")
_UNBRACKETED = re.compile(rf"(?P<name>[^\s:=@\[\]]+)\s*=\s*{_AXES}")  # no statement: `I=x`
_GROUP = re.compile(r"group\s*\[(?P<places>[^\[\]]*)\]")
_BARRIER = re.compile(r"barrier\s*\[(?P<place>[^\[\],]*)\](?:\s*allows:(?P<allows>\w+))?")
_TURNS = re.compile(r"turns\s*\[(?P<loop>[^\[\],]+)\]\s*=\s*(?P<count>\d{1,9})")


class Statements(NamedTuple):
    """The statements of a text, by kind."""

    rules: Rules
    overrides: Entries
    constraints: Entries
    priorities: tuple[tuple[str, int], ...]
    groups: tuple[tuple[str, ...], ...]
    barriers: tuple[tuple[str, str], ...]
    turns: tuple[tuple[str, int], ...]


def parse_statements(text: str) -> Statements:
    """The statements of a text; raises `LayoutError` for anything that is not a statement."""
    found: dict[str, list[object]] = {name: [] for name in Statements._fields}
    for statement in _split_statements(text):
        if word := statement.strip():
            for kind, entry in _parse_statement(word):
                found[kind].append(entry)
    return Statements(*(tuple(entries) for entries in found.values()))  # type: ignore[arg-type]


def _split_statements(text: str) -> list[str]:
    """Split at `;`, at line ends, and at each `,` outside of brackets; from the end, where it is known which bracket comes next."""
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
    elif found := _GROUP.fullmatch(word):
        yield "groups", tuple(place.strip() for place in found["places"].split(",") if place.strip())
    elif found := _BARRIER.fullmatch(word):
        yield "barriers", (found["place"].strip(), found["allows"] or "none")
    elif found := _TURNS.fullmatch(word):
        yield "turns", (found["loop"].strip(), int(found["count"]))
    elif found := _RULE.fullmatch(word):
        yield "rules", (found["dim"], tuple(found["axes"].split("+")))
        if found["priority"]:
            yield "priorities", (found["dim"], int(found["priority"]))
    else:
        raise LayoutError(
            f"`{word[:80]}` is not a layout statement.",
            _slip_ways(word)
            or [
                "a rule is `d_ff:model`",
                "an override `params/w=[data, -]`",
                "a constraint `@mlp/dot_general=[data, ?, model]`",
                "a group `group[@q/dot_general, @k/dot_general]`",
                "a barrier `barrier[@mlp/dot_general]`",
                "how often a loop turns `turns[solve/while]=8`",
            ],
        )


def _slip_ways(word: str) -> list[str]:
    """What to write in place of a usual slip; empty where none is seen."""
    pieces = word.split()
    if len(pieces) > 1 and all(_RULE.fullmatch(each) for each in pieces):
        return [f"put `;` between two: `{'; '.join(pieces)[:80]}`"]
    if found := _UNBRACKETED.fullmatch(word[:MOST_LETTERS]):
        name, axes = found["name"], found["axes"]
        return [f"write `{name}:{axes}` for a dimension", f"write `{name}=[{axes}, -]`, one entry per dimension, for a tensor"]
    return []


def parse_axes(text: str) -> tuple[tuple[str, ...], int]:
    """The axes and the priority, from what follows the colon of a rule: `model`, `data+pipe p1`."""
    found = re.fullmatch(_AXES, text.strip())
    return (tuple(found["axes"].split("+")), int(found["priority"] or 0)) if found else (tuple(text.split("+")), 0)


def axes_text(axes: tuple[str, ...], priority: int) -> str:
    """The inverse of `parse_axes`."""
    return f"{'+'.join(axes)} p{priority}" if priority else "+".join(axes)


def group_text(places: tuple[str, ...]) -> str:
    return f"group[{', '.join(places)}]"


def barrier_text(place: str, allows: str) -> str:
    return f"barrier[{place}]" + ("" if allows == "none" else f" allows:{allows}")
