"""Resharding: values computed in one sharding and read in another, with its cost and edits that avoid it.

The eight classes are the methods of XLA's partitioner, in the order in which it tries them
(`PartitionedHlo::ReshardNoCache`); the last gathers the whole value on every device. A planned reshard follows Shardy;
a partitioned one follows XLA, and only then is the last class reported, if XLA warned of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from workbench.core.path_patterns import template
from workbench.core.sharding import Sharding
from workbench.core.text_tables import axes_text, group_items, table_text, tail_text
from workbench.plan.edits import Edit
from workbench.units import format_bytes

_LARGEST = 8  # rows of the table

REMATERIALISED = 8
CLASS_TEXTS = {
    1: "stays",
    2: "within the groups of a shard_map",
    3: "permuted",
    4: "swapped between dimensions",
    5: "sliced",
    6: "gathered",
    7: "in several moves",
    REMATERIALISED: "gathered whole, then sliced",
}
REMATERIALISATION = "involuntary full rematerialisation"
"""XLA's name for the last class, and the kind of its diagnostic."""


class ReshardCollective(NamedTuple):
    """One collective of a reshard, per execution; bytes and `seconds` as in `collective.Collective`, on one device."""

    kind: str
    axes: tuple[str, ...]
    payload: int
    sent: int
    seconds: float = 0.0


class Remedy(NamedTuple):
    """An edit that was tried: the plan stays legal, and this reshard disappears or becomes cheaper.

    Bytes per device and step: `sent`, still sent at this place; `saved`, less sent in the whole step; `added_bytes`,
    growth of the peak, negative if it shrinks.
    """

    edit: Edit
    sent: int
    saved: int
    added_bytes: int


@dataclass(frozen=True)
class Reshard:
    """A change of a value's sharding; equal ones are grouped, with `count` executions per step.

    - `path`, `source`: the value's operation or argument, and its source line; `reader`, `reader_source`: of the
      operation that needs the other sharding;
    - `shape`, `dims`, `dtype`: of the whole value; `before` and `after` may have sub-axes, which only propagation
      makes;
    - `classes`: of the eight methods (`CLASS_TEXTS`); two if one follows the other;
    - `moves`: the collectives of one execution, in order; empty if each device only slices;
    - `temporary`: peak bytes on one device: operand and result of the largest move; in class 8 with the whole value.
    """

    path: str
    source: str
    reader: str
    reader_source: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    dtype: str
    before: Sharding
    after: Sharding
    classes: tuple[int, ...]
    moves: tuple[ReshardCollective, ...]
    temporary: int
    count: int
    is_argument: bool = False
    find_remedies: "Callable[[Reshard], tuple[Remedy, ...]]" = field(default=lambda _: (), compare=False, repr=False)

    @property
    def rematerialises(self) -> bool:
        """Return whether XLA warns of *involuntary full rematerialization*."""
        return REMATERIALISED in self.classes

    @property
    def is_free(self) -> bool:
        return not self.moves

    @property
    def sent(self) -> int:
        """Bytes that leave each device per step."""
        return self.count * sum(move.sent for move in self.moves)

    @property
    def payload(self) -> int:
        return self.count * sum(move.payload for move in self.moves)

    @property
    def seconds(self) -> float:
        """Seconds of all executions in a step, without overlap; 0 without hardware."""
        return self.count * sum(move.seconds for move in self.moves)

    @property
    def way(self) -> str:
        return ", then ".join(CLASS_TEXTS[number] for number in self.classes)

    @cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        """Edits that avoid it or make it cheaper, largest saving first; tried on first use, with a report for each."""
        return self.find_remedies(self)

    @property
    def is_tried(self) -> bool:
        return "remedies" in vars(self)

    @property
    def edits(self) -> tuple[Edit, ...]:
        return tuple(remedy.edit for remedy in self.remedies)

    def __str__(self) -> str:
        return f"{self.path} {self.before} → {self.after} for {self.reader}"


def reshards_text(reshards: Sequence[Reshard]) -> str:
    sending = [each for each in reshards if not each.is_free]
    if not sending:
        return ""
    groups = group_items(
        sending, lambda each: (template(each.path), template(each.reader), each.before, each.after, each.shape, each.classes)
    )
    groups.sort(key=lambda group: (not group[0].rematerialises, -sum(each.sent for each in group)))
    rows = []
    for group in groups[:_LARGEST]:
        first = group[0]
        rows.append(
            (
                tail_text(template(first.path) if len(group) > 1 else first.path, 30),
                f"{first.before} → {first.after}",
                "+".join(map(str, first.classes)),
                " ".join(f"{move.kind}:{axes_text(move.axes)}" for move in first.moves),
                format_bytes(sum(each.sent for each in group)),
                format_bytes(first.temporary),
                tail_text(first.source or first.reader_source, 16),
            )
        )
    text = table_text(["value~", "from → to~", "way", "collectives~", "sent>", "held>", "source"], rows)
    free = len(reshards) - len(sending)
    more = [f"{len(groups) - _LARGEST} smaller ones"] if len(groups) > _LARGEST else []
    more += [f"{free} that only slice"] if free else []
    tail = f"\n  and {' and '.join(more)}" if more else ""
    return f"Resharded between operations (way: one of eight methods of XLA's partitioner; 8 gathers the whole value)\n\n{text}{tail}"
