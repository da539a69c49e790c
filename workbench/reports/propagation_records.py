"""The records of a propagation: an axis on a dimension, where it comes from, how it went on, and which axes were rejected.

- An *origin* is an axis that somebody wrote down: a rule or an override on an argument, a constraint on a value, the function's own
  `with_sharding_constraint`, the specs of a `shard_map`.
- An *axis propagation* takes one axis from one value to another over one operation.
- A *rejected axis* is one that a neighbour offered and that was not taken.
"""

from dataclasses import dataclass
from typing import NamedTuple

from workbench.core.sharding import Sharding

FORWARD, BACKWARD, ACROSS = "forward", "backward", "across"
"""From an operand to a result, from a result to an operand, from an operand to another."""

USED_ON_OTHER_DIM, CONTESTED, DIFFERENT_ORDER, CLOSED, REPLICATED, BLOCKED_BY_OTHER_TENSOR, UNEVEN, MINOR, NOT_PASSED = (
    *("axis already used", "axis requested twice", "incompatible order of major axes", "closed dimension", "axis excluded"),
    *("blocked by another tensor", "does not divide", "minor part of a joined dimension", "not passed on"),
)
REASONS = (USED_ON_OTHER_DIM, CONTESTED, DIFFERENT_ORDER, CLOSED, REPLICATED, BLOCKED_BY_OTHER_TENSOR, UNEVEN, MINOR, NOT_PASSED)
"""Why an axis was rejected, on the tensor that did not take it."""


class AxisOnDim(NamedTuple):
    """A mesh axis, or a part of one, on one dimension of one value."""

    value: int
    dim: int
    axis: str


@dataclass(frozen=True, slots=True)
class ShardedValue:
    """One value of the program and its final sharding.

    - `role`: `argument`, `result` or `value`;
    - `path`, `kind`, `shape`, `dims`, `source`: as in `placement.Value`; an argument's kind is `input`, as in `kernel.GraphNode`;
    - `sharding`: from propagation; `computed`: the one its operation computes it in; where they differ, it is resharded afterwards.
    """

    role: str
    path: str
    kind: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    source: str
    sharding: Sharding
    computed: Sharding


@dataclass(frozen=True, slots=True)
class Origin:
    """An axis that was annotated on a dimension.

    - `kind`: `argument`, `result`, `constraint`, `own constraint` (the function's), `shard_map`, `sharding group`;
    - `path`: of the argument, result or value; `statement`: what put it there, in the user's words: `batch:data`, `@mlp/out=[data, ?]`;
    - `source`: the user's line, of what the function itself says; `priority`: Shardy's user priority, 0 goes first.
    """

    kind: str
    axis_on_dim: AxisOnDim
    path: str
    statement: str
    source: str = ""
    priority: int = 0

    @property
    def axis(self) -> str:
        return self.axis_on_dim.axis

    def __str__(self) -> str:
        words = f"`{self.statement}`" if self.statement else self.kind
        on = "" if self.kind == "constraint" or not self.path or self.path == self.statement else f" on {self.path}"
        line = f" ({self.source})" if self.source else ""
        return f"{words}{on}{line}" + (f", priority {self.priority}" if self.priority else "")


class AxisPropagation(NamedTuple):
    """One axis propagated at one step, over the operation `over` (its kind, its line), from one dimension of a value to another's."""

    step: int
    axis: str
    source: int
    source_dim: int
    target: int
    target_dim: int
    over: str
    kind: str
    line: str
    direction: str

    @property
    def axis_on_dim(self) -> AxisOnDim:
        """The axis on the dimension that it reached."""
        return AxisOnDim(self.target, self.target_dim, self.axis)


class PropagationStep(NamedTuple):
    """What the partitioner propagated at one operation at once."""

    number: int
    over: str
    kind: str
    line: str
    axis_propagations: tuple[AxisPropagation, ...]


@dataclass(frozen=True, slots=True)
class RejectedAxis:
    """An axis that was offered and not taken: `giver` has it, over the operation `over`; `wanted` is where it would have gone.

    `rival` is the axis that was in the way, if one was, and `rival_origin` the origin of that.
    """

    wanted: AxisOnDim
    giver: AxisOnDim
    origin: Origin
    over: str
    kind: str
    line: str
    reason: str
    rival: AxisOnDim | None = None
    rival_origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one axis splits one dimension of one value.

    - `path`: the axis propagations from the origin to it, in order; empty at the origin itself;
    - `lost`: axes rejected here: for this dimension, or this axis elsewhere on this value;
    - `others`: origins of the same axis that the same dimension is connected with: without `origin`, one of them may bring it, and no
      other can.
    """

    axis_on_dim: AxisOnDim
    origin: Origin
    path: tuple[AxisPropagation, ...]
    lost: tuple[RejectedAxis, ...]
    others: tuple[Origin, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two origins in conflict: `winner` holds, `loser` was rejected; alike places of one pair are one conflict.

    `rejections` are the rejected axes, in program order.
    """

    winner: Origin
    loser: Origin
    reason: str
    rejections: tuple[RejectedAxis, ...]

    @property
    def first(self) -> RejectedAxis:
        return self.rejections[0]
