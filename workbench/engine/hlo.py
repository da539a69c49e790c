"""Optimised HLO text, as far as communication needs it: computations, instructions, how often each instruction runs.

    %while.26 = (s32[], f32[4,64]{1,0}) while(%tuple.29), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"3"}}
     name       shape                   opcode operands   attributes

The grammar is that of XLA's `HloPrintOptions`; read off the texts of XLA:CPU, GPU and TPU (jax 0.10.2).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import NamedTuple

_HEADER = re.compile(r"(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) \(.*\) -> .*\{$")
_RESULT = re.compile(r"\s+(?:ROOT )?%?(?P<name>[\w.\-]+) = ")
_NAME = re.compile(r"%([\w.\-]+)")
_ARRAY = re.compile(r"(?P<type>[a-z]\w*)\[(?P<dims>[\d,<=]*)\]")
_TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_CALLS = re.compile(r"(?:calls|to_apply|called_computations|async_wrapped)=\{?((?:%[\w.\-]+(?:, )?)+)")
_BRANCHES = re.compile(r"(?:branch_computations=\{([^}]*)\}|true_computation=(%[\w.\-]+), false_computation=(%[\w.\-]+))")
_CALLERS = ("call", "fusion", "async-start", "custom-call")


class Instruction(NamedTuple):
    """One line: `shape` and `attributes` are still text, `operands` are names in the same computation."""

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str
    literal: str  # what stands between the parentheses, for constants

    def attribute(self, key: str) -> str | None:
        """The name behind `key=%name`."""
        found = re.search(rf"\b{key}=%?([\w.\-]+)", self.attributes)
        return found[1] if found else None


Computation = Mapping[str, Instruction]


@dataclass(frozen=True)
class HloModule:
    """The computations of a compiled program by name, and which of them is the entry."""

    computations: Mapping[str, Computation]
    entry: str

    def executed(self) -> Iterator[tuple[Computation, Instruction, int]]:
        """Every instruction one run of the program reaches, with its computation and how often it runs."""
        return self._executed(self.entry, 1)

    def _executed(self, name: str, count: int) -> Iterator[tuple[Computation, Instruction, int]]:
        computation = self.computations[name]
        for instruction in computation.values():
            yield computation, instruction, count
            for callee, times in self._callees(instruction):
                yield from self._executed(callee, count * times)

    def _callees(self, instruction: Instruction) -> Iterator[tuple[str, int]]:
        """Computations the instruction runs, and how often. Of a conditional all branches: which one runs is not known."""
        if instruction.opcode == "while":
            trips = self.trip_count(instruction)
            yield from ((name, trips) for key in ("body", "condition") if (name := instruction.attribute(key)))
        elif instruction.opcode == "conditional":
            for found in _BRANCHES.finditer(instruction.attributes):
                yield from ((name, 1) for name in _NAME.findall(" ".join(filter(None, found.groups()))))
        elif instruction.opcode in _CALLERS:
            for found in _CALLS.finditer(instruction.attributes):
                yield from ((name, 1) for name in _NAME.findall(found[1]))

    def trip_count(self, loop: Instruction) -> int:
        """How often a `while` runs: as XLA proved it, else the one integer its condition compares with, else 1."""
        if found := _TRIP_COUNT.search(loop.attributes):
            return int(found[1])
        condition = self.computations.get(loop.attribute("condition") or "", {})
        bounds = {each.literal for each in condition.values() if each.opcode == "constant" and re.fullmatch(r"\d+", each.literal)}
        return int(bounds.pop()) if len(bounds) == 1 else 1


def parse_hlo(text: str) -> HloModule:
    """Read `compiled.as_text()`."""
    computations: dict[str, dict[str, Instruction]] = {}
    current: dict[str, Instruction] = {}
    entry = ""
    for line in text.splitlines():
        if header := _HEADER.match(line):
            current = computations.setdefault(header["name"], {})
            entry = header["name"] if header["entry"] else entry
        elif found := _RESULT.match(line):
            current[found["name"]] = _instruction(found["name"], line[found.end() :])
    return HloModule(computations, entry)


def _instruction(name: str, rest: str) -> Instruction:
    shape_end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    open_at = rest.index("(", shape_end)
    close_at = _closing(rest, open_at)
    inner = rest[open_at + 1 : close_at]
    opcode = rest[shape_end:open_at].strip()
    return Instruction(name, rest[:shape_end], opcode, tuple(_NAME.findall(inner)), rest[close_at + 1 :], inner)


def _closing(text: str, start: int) -> int:
    """The index of the parenthesis that closes the one at `start`."""
    depth = 0
    for found in re.compile(r"[()]").finditer(text, start):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.start()
    return len(text) - 1


def shape_bytes(shape: str) -> int:
    """Bytes of an array or a tuple of arrays, layouts ignored.

    >>> shape_bytes("f32[4,64]{1,0}"), shape_bytes("(bf16[8]{0}, s4[3]{0}, pred[])"), shape_bytes("token[]")
    (1024, 19, 0)
    """
    return sum(_array_bytes(found["type"], found["dims"]) for found in _ARRAY.finditer(shape))


def _array_bytes(element: str, dims: str) -> int:
    width = re.search(r"\d+", element)
    bits = 8 if element == "pred" else int(width[0]) if width else 0
    return ceil(prod(int(size.removeprefix("<=")) for size in dims.split(",") if size) * bits / 8)
