"""Resharding: a value is made in one sharding and read in another. What that takes, and edits that avoid it.

The eight classes of ways are those of XLA's partitioner, in the order in which it tries them (`PartitionedHlo::ReshardNoCache`); the last
holds the whole value on every device. As planned, the way is Shardy's; once XLA's partitioner has answered it is XLA's, and only then is
the last class reported: where XLA warned of it.
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
"""Each class, in words."""
REMATERIALISATION = "involuntary full rematerialisation"
"""XLA's name for the last class, and the kind of the diagnostic that reports it."""


class ReshardCollective(NamedTuple):
    """One collective of a resharding, for one execution; bytes and `seconds` as in `collective.Collective`, on one device."""

    kind: str
    axes: tuple[str, ...]
    payload: int
    sent: int
    seconds: float = 0.0


class Remedy(NamedTuple):
    """An edit that has been tried: with it the plan is legal, and this resharding gone or cheaper.

    Bytes per device and step: `sent`, what is still sent at this place; `saved`, what the whole step sends less; `added_bytes`, by how much
    the peak of a device grows, negative where it shrinks.
    """

    edit: Edit
    sent: int
    saved: int
    added_bytes: int


@dataclass(frozen=True)
class Reshard:
    """Where a value's sharding changes into another; alike ones together, `count` executions a step.

    - `path`, `source`: of the value: its operation, or its argument, and the user's line that makes it; `reader`, `reader_source`: of the
      operation that needs it in the other sharding;
    - `shape`, `dims`, `dtype`: of the whole value; `before` and `after` may hold sub-axes, which only propagation makes;
    - `classes`: of the eight ways (`CLASS_TEXTS`); two where one follows the other;
    - `moves`: the collectives of one execution, in order; none where each device just keeps a part of what it has;
    - `temporary`: bytes on one device at the worst moment, operand and result of the largest move; in class 8 with the whole value.
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
        """Whether XLA warns of it: *involuntary full rematerialization*."""
        return REMATERIALISED in self.classes

    @property
    def is_free(self) -> bool:
        """Whether nothing is sent."""
        return not self.moves

    @property
    def sent(self) -> int:
        """Bytes that leave each device per step."""
        return self.count * sum(move.sent for move in self.moves)

    @property
    def payload(self) -> int:
        """Payload bytes per device and step."""
        return self.count * sum(move.payload for move in self.moves)

    @property
    def seconds(self) -> float:
        """Seconds of all executions of a step, one collective after the other; 0 without hardware."""
        return self.count * sum(move.seconds for move in self.moves)

    @property
    def way(self) -> str:
        """Its classes in words."""
        return ", then ".join(CLASS_TEXTS[each] for each in self.classes)

    @cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        """Edits that avoid it or make it cheaper, the most saving first; tried when first asked for, a report for each."""
        return self.find_remedies(self)

    @property
    def is_tried(self) -> bool:
        """Whether its remedies have been looked for."""
        return "remedies" in vars(self)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits of the remedies."""
        return tuple(remedy.edit for remedy in self.remedies)

    def __str__(self) -> str:
        return f"{self.path} {self.before} → {self.after} for {self.reader}"


def reshards_text(reshards: Sequence[Reshard]) -> str:
    """Reshards that send something; empty where there are none."""
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
