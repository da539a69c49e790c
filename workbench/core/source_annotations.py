"""Records of sharding annotations in the traced function: constraints, explicit-mode types and manual regions.

- `with_sharding_constraint`, `jax.reshard` and an explicit-mode `out_sharding` constrain the value they are applied to;
- an argument whose type carries a sharding (`AxisType.Explicit`) states its intended sharding; a plan may choose
  another;
- in a `shard_map` the function itself states what each device does along the manual axes; propagation does not add
  them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.core.sharding import Sharding
from workbench.core.text_tables import axes_text, shape_text, table_text, tail_text


@dataclass(frozen=True, slots=True)
class WrittenShardings:
    """Shardings that the program states for its arguments by type, given arrays or first use; `None` if unstated.

    `mesh`: the named axes with sizes; `explicit`: axes in JAX's explicit mode.
    """

    mesh: tuple[tuple[str, int], ...] = ()
    explicit: tuple[str, ...] = ()
    shardings: tuple[Sharding | None, ...] = ()

    @property
    def axes(self) -> frozenset[str]:
        return frozenset(axis for sharding in self.shardings if sharding is not None for axis in sharding.axes)


NOTHING_WRITTEN = WrittenShardings()


@dataclass(frozen=True, slots=True)
class SourceConstraint:
    """A constraint in the function: path, source line, sharding; `times` counts such values at this place."""

    path: str
    source: str
    shape: tuple[int, ...]
    dtype: str
    sharding: Sharding
    manual: tuple[str, ...] = ()
    times: int = 1


@dataclass(frozen=True, slots=True)
class SourceType:
    """An argument whose type carries a sharding."""

    path: str
    sharding: Sharding


@dataclass(frozen=True, slots=True)
class ManualRegion:
    """A `shard_map`: manual axes, and shardings of operands and results with open dimensions left to propagation."""

    path: str
    source: str
    axes: tuple[str, ...]
    incoming: tuple[Sharding, ...]
    outgoing: tuple[Sharding, ...]


@dataclass(frozen=True, slots=True)
class SourceAnnotations:
    """All annotations in program order; `mesh` has the named axes with their sizes in the trace."""

    mesh: tuple[tuple[str, int], ...] = ()
    types: tuple[SourceType, ...] = ()
    constraints: tuple[SourceConstraint, ...] = ()
    regions: tuple[ManualRegion, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.types or self.constraints or self.regions)

    def __str__(self) -> str:
        """Format one row per annotation, by place and line; empty if there is none."""
        if not self:
            return ""
        rows = list(_annotation_rows(self))
        over = " ".join(f"{name}:{size}" for name, size in self.mesh)
        more = f"\n  and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
        head = f"Sharded by the function itself, over {over}"
        return f"{head}\n\n{table_text(['what', 'value', 'lies', 'source'], rows[:MOST_ROWS])}{more}"


MOST_ROWS = 24


def _annotation_rows(annotations: SourceAnnotations) -> Iterator[tuple[str, str, str, str]]:
    for argument in annotations.types:
        yield "type", argument.path, str(argument.sharding), ""
    for constraint in annotations.constraints:
        times = f" ×{constraint.times}" if constraint.times > 1 else ""
        inside = f", in a shard_map over {axes_text(constraint.manual)}" if constraint.manual else ""
        yield (
            "constraint",
            f"{tail_text(constraint.path)}{times} {shape_text(constraint.shape)}",
            f"{constraint.sharding}{inside}",
            constraint.source,
        )
    for region in annotations.regions:
        ways = f"{', '.join(map(str, region.incoming)) or 'nothing'} → {', '.join(map(str, region.outgoing)) or 'nothing'}"
        yield f"manual {axes_text(region.axes)}", tail_text(region.path), ways, region.source
