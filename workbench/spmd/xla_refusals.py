"""The error for a plan that XLA's partitioner refuses: where in the user's program, whose bug it is, what to write instead."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.core.program import Program
from workbench.errors import PartitionError, opening_text
from workbench.propagation.module.function_calls import operations_called
from workbench.propagation.module.mlir_context import parse_module
from workbench.propagation.prepared_program import place_of
from workbench.spmd.locate_xla_collectives import operations_named

_INTERNAL = ("INTERNAL", "RET_CHECK", "Check failed", "UNIMPLEMENTED")
_NAME = re.compile(r'op_name="([^"]*)"|%(wb\d+)')
_MOST_NAMED = 3


class _Place(NamedTuple):
    path: str
    source: str
    rank: int

    def __str__(self) -> str:
        return f"`{self.path}` ({self.source})" if self.source and self.path else f"`{self.path or self.source}`"


def xla_refusal(text: str, program: Program) -> PartitionError:
    """The error for what XLA's partitioner said; `program` is read for the places of the operations that it names."""
    places = list(dict.fromkeys(_find_places(text, program)))[:_MOST_NAMED]
    where = f" at {', '.join(map(str, places))}" if places else ""
    return PartitionError(f"XLA refuses this plan{where}: {opening_text(text, 300)}", list(_ways_out(text, places)), text)


def _ways_out(text: str, places: Sequence[_Place]) -> Iterator[str]:
    if place := next((each for each in places if each.path and each.rank > 0), None):
        yield f"keep that value whole, `@{place.path}=[{', '.join('-' * place.rank)}]`"
    yield "change the layout back"
    if any(sign in text for sign in _INTERNAL):
        yield "XLA's own: report it to openxla/xla"


def _find_places(text: str, program: Program) -> Iterator[_Place]:
    numbers = [number for named, own in _NAME.findall(text) for number in operations_named(named or own)]
    if not numbers:
        return
    module = parse_module(program.lowered)
    with module.context, ir.Location.unknown():
        operations = list(operations_called(module.operation))
        found = (_Place(*place_of(*operations[number])) for number in numbers if number < len(operations))
        yield from (each for each in found if each.path or each.source)
