"""Optimised HLO text: computations, instructions, how often each instruction runs. Shapes are read in `hlo_shapes.py`.

    %while.26 = (s32[], f32[4,64]{1,0}) while(%tuple.29), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"3"}}
     name       shape                   opcode operands   attributes

The grammar is that of XLA's `HloPrintOptions`; read off the texts of XLA:CPU, GPU and TPU (jax 0.10.2).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import NamedTuple

_HEADER = re.compile(r"(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) \(.*\) -> .*\{$")
_RESULT = re.compile(r"\s+(?P<root>ROOT )?%?(?P<name>[\w.\-]+) = ")
_NAME = re.compile(r"%([\w.\-]+)")
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
    root: bool = False

    @property
    def element(self) -> int:
        """Of a `get-tuple-element`."""
        found = re.search(r"index=(\d+)", self.attributes)
        return int(found[1]) if found else 0

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
        return ((visit.computation, visit.instruction, visit.runs) for visit in self.visits())

    def visits(self) -> Iterator["Visit"]:
        """Every instruction one run of the program reaches, and from where."""
        return self._visits(self.entry, 1, "", None)

    def _visits(self, name: str, count: int, loop: str, within: Instruction | None) -> Iterator["Visit"]:
        computation = self.computations[name]
        for instruction in computation.values():
            yield Visit(computation, instruction, count, loop, within)
            is_loop, is_wrapper = instruction.opcode == "while", instruction.opcode in ("fusion", "async-start")
            for callee, times in self._callees(instruction):
                yield from self._visits(
                    callee, count * times, callee if is_loop else loop, (within or instruction) if is_wrapper else within
                )

    def callees(self, instruction: Instruction) -> tuple[str, ...]:
        """Names of the computations the instruction runs."""
        return tuple(name for name, _ in self._callees(instruction))

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
        """How often a `while` runs: as XLA proved it, else what its condition and the step of its counter come to, else 1."""
        if found := _TRIP_COUNT.search(loop.attributes):
            return int(found[1])
        condition = self.computations.get(loop.attribute("condition") or "", {})
        bounds = {int(each.literal) for each in condition.values() if _is_whole(each)}
        if len(bounds) != 1:
            return 1
        start, step = self._counter(loop, condition)
        return max(ceil((bounds.pop() - start) / step), 0)

    def _counter(self, loop: Instruction, condition: Computation) -> tuple[int, int]:
        """Where a loop's counter starts and what a trip adds to it: 0 and 1 unless the text says otherwise.

        XLA:TPU unrolls a windowed einsum's body twice and lets the bound be, so that the step is 2.
        """
        indices = {each.element for each in condition.values() if each.opcode == "get-tuple-element"}
        body = self.computations.get(loop.attribute("body") or "", {})
        if len(indices) != 1:
            return 0, 1
        index = indices.pop()
        start = self._element(loop, index)
        root = root_of(body)
        added = body.get(root.operands[index]) if root and root.opcode == "tuple" else None
        steps = [int(body[name].literal) for name in added.operands if name in body and _is_whole(body[name])] if added else []
        is_sum = added is not None and added.opcode == "add" and len(steps) == 1
        return (int(start.literal) if start and _is_whole(start) else 0), (steps[0] if is_sum and steps[0] > 0 else 1)

    def _element(self, loop: Instruction, index: int) -> Instruction | None:
        """The instruction that makes one element of a loop's operand, if that is a tuple in the same computation."""
        computation = self.home_of(loop)
        made = computation.get(loop.operands[0])
        return computation.get(made.operands[index]) if made and made.opcode == "tuple" else None

    def home_of(self, instruction: Instruction) -> Computation:
        """The computation an instruction stands in."""
        return self.computations[self._homes[id(instruction)]]

    @cached_property
    def _homes(self) -> Mapping[int, str]:
        return {id(each): name for name, computation in self.computations.items() for each in computation.values()}


class Visit(NamedTuple):
    """An instruction that runs `runs` times a step: in the body or condition `loop` (empty outside of loops), inside the fusion or
    asynchronous call `within` (the outermost), if any."""

    computation: Computation
    instruction: Instruction
    runs: int
    loop: str
    within: Instruction | None


def parameter_of(computation: Computation, number: int) -> Instruction | None:
    """A computation's parameter by its number; `None` where the computation does not have it."""
    return next((each for each in computation.values() if each.opcode == "parameter" and each.literal == str(number)), None)


def root_of(computation: Computation) -> Instruction | None:
    return next((each for each in computation.values() if each.root), None)


def _is_whole(instruction: Instruction) -> bool:
    return instruction.opcode == "constant" and instruction.shape.startswith(("s", "u")) and instruction.literal.isdecimal()


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
            current[found["name"]] = _instruction(found["name"], line[found.end() :], root=bool(found["root"]))
    return HloModule(computations, entry)


def _instruction(name: str, rest: str, *, root: bool) -> Instruction:
    shape_end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    open_at = rest.index("(", shape_end)
    close_at = _closing(rest, open_at)
    inner = rest[open_at + 1 : close_at]
    opcode = rest[shape_end:open_at].strip()
    return Instruction(name, rest[:shape_end], opcode, tuple(_NAME.findall(inner)), rest[close_at + 1 :], inner, root)


def _closing(text: str, start: int) -> int:
    """The index of the parenthesis that closes the one at `start`."""
    depth = 0
    for found in re.compile(r"[()]").finditer(text, start):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.start()
    return len(text) - 1
