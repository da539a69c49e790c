"""Records of a propagation: axes on dimensions, their origins, their propagation, and rejected axes.

- An *origin* is an explicit annotation: a rule or an override on an argument, a constraint on a value, the function's
  own `with_sharding_constraint`, the specs of a `shard_map`.
- An *axis propagation* takes one axis from one value to another over one operation.
- A *rejected axis* was offered by a neighbour and not taken.
"""

from dataclasses import dataclass
from typing import NamedTuple

from workbench.core.sharding import Sharding

FORWARD, BACKWARD, ACROSS = "forward", "backward", "across"
"""Operand to result, result to operand, operand to another operand."""

USED_ON_OTHER_DIM, CONTESTED, DIFFERENT_ORDER, CLOSED, REPLICATED, BLOCKED_BY_OTHER_TENSOR, UNEVEN, MINOR, NOT_PASSED = (
    *("axis already used", "axis requested twice", "incompatible order of major axes", "closed dimension", "axis excluded"),
    *("blocked by another tensor", "does not divide", "minor part of a joined dimension", "not passed on"),
)
REASONS = (USED_ON_OTHER_DIM, CONTESTED, DIFFERENT_ORDER, CLOSED, REPLICATED, BLOCKED_BY_OTHER_TENSOR, UNEVEN, MINOR, NOT_PASSED)
"""Reasons why a tensor rejects an axis."""


class AxisOnDim(NamedTuple):
    """A mesh axis or sub-axis on one dimension of one value."""

    value: int
    dim: int
    axis: str


@dataclass(frozen=True, slots=True)
class ShardedValue:
    """One value of the program and its final sharding.

    - `role`: `argument`, `result` or `value`;
    - `path`, `kind`, `shape`, `dims`, `source`: as in `placement.Value`; an argument's kind is `input`, as in
      `kernel.GraphNode`;
    - `sharding`: from propagation; `computed`: the sharding in which its operation computes it; if they differ, it is
      resharded afterwards.
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
    - `path`: of the argument, result or value; `statement`: the annotation in the user's words: `batch:data`,
      `@mlp/out=[data, ?]`;
    - `source`: the user's line, for annotations in the function; `priority`: Shardy's user priority, 0 first.
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
    """The propagation of one axis in one step over operation `over` (`kind`, `line`), between dimensions of two values."""

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
        return AxisOnDim(self.target, self.target_dim, self.axis)


class PropagationStep(NamedTuple):
    """All axes propagated at one operation at once."""

    number: int
    over: str
    kind: str
    line: str
    axis_propagations: tuple[AxisPropagation, ...]


@dataclass(frozen=True, slots=True)
class RejectedAxis:
    """An axis that `giver` offered over `over` and `wanted` did not take, because of `rival` of `rival_origin`, if any."""

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
    """The explanation of one axis on one dimension of one value.

    - `path`: the axis propagations from the origin, in order; empty at the origin itself;
    - `lost`: rejected axes of this dimension, and rejections of this axis elsewhere on this value;
    - `others`: other origins of the same axis connected to this dimension, which could provide it without `origin`.
    """

    axis_on_dim: AxisOnDim
    origin: Origin
    path: tuple[AxisPropagation, ...]
    lost: tuple[RejectedAxis, ...]
    others: tuple[Origin, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two conflicting origins: `winner` was applied, `loser` rejected, at `rejections` in program order."""

    winner: Origin
    loser: Origin
    reason: str
    rejections: tuple[RejectedAxis, ...]

    @property
    def first(self) -> RejectedAxis:
        return self.rejections[0]
