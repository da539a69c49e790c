"""Sharding annotations in the traced function itself: constraints, types of explicit mode, manual regions. A value; `print` it.

- `with_sharding_constraint`, `jax.reshard` and an explicit-mode `out_sharding` are constraints on the value they are applied to;
- an argument whose type carries a sharding (`AxisType.Explicit`) states the sharding it is meant to have; a plan may choose another;
- in a `shard_map` the function itself says what each device does along the manual axes; propagation leaves those alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.core.sharding import Sharding
from workbench.core.text_tables import axes_text, shape_text, table_text, tail_text


@dataclass(frozen=True, slots=True)
class WrittenShardings:
    """How the traced program lays out its own arguments: by their types, as given arrays lie, or by what is first done with them.

    `mesh` are the axes that are named, with their sizes; `explicit` those of them in JAX's explicit mode; `shardings` one for each
    argument, `None` where nothing says.
    """

    mesh: tuple[tuple[str, int], ...] = ()
    explicit: tuple[str, ...] = ()
    shardings: tuple[Sharding | None, ...] = ()

    @property
    def axes(self) -> frozenset[str]:
        """The axes that an argument is sharded over."""
        return frozenset(axis for each in self.shardings if each is not None for axis in each.axes)


NOTHING_WRITTEN = WrittenShardings()


@dataclass(frozen=True, slots=True)
class SourceConstraint:
    """A value that the function itself constrains: its path, the user's line, its sharding; `times` counts such values at this place."""

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
    """A `shard_map`: its manual axes, and the shardings of its operands and results; an open dimension is left to propagation."""

    path: str
    source: str
    axes: tuple[str, ...]
    incoming: tuple[Sharding, ...]
    outgoing: tuple[Sharding, ...]


@dataclass(frozen=True, slots=True)
class SourceAnnotations:
    """All annotations, in program order; `mesh` are the axes they name, with the sizes they had in the trace."""

    mesh: tuple[tuple[str, int], ...] = ()
    types: tuple[SourceType, ...] = ()
    constraints: tuple[SourceConstraint, ...] = ()
    regions: tuple[ManualRegion, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.types or self.constraints or self.regions)

    def __str__(self) -> str:
        return source_annotations_text(self)


MOST_ROWS = 24  # rows


def source_annotations_text(annotations: SourceAnnotations) -> str:
    """One row per annotation, by place and line; empty if there is none."""
    if not annotations:
        return ""
    rows = list(_annotation_rows(annotations))
    over = " ".join(f"{name}:{size}" for name, size in annotations.mesh)
    more = f"\n  and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    head = f"Sharded by the function itself, over {over}"
    return f"{head}\n\n{table_text(['what', 'value', 'lies', 'source'], rows[:MOST_ROWS])}{more}"


def _annotation_rows(annotations: SourceAnnotations) -> Iterator[tuple[str, str, str, str]]:
    for argument in annotations.types:
        yield "type", argument.path, str(argument.sharding), ""
    for each in annotations.constraints:
        times = f" ×{each.times}" if each.times > 1 else ""
        inside = f", in a shard_map over {axes_text(each.manual)}" if each.manual else ""
        yield "constraint", f"{tail_text(each.path)}{times} {shape_text(each.shape)}", f"{each.sharding}{inside}", each.source
    for region in annotations.regions:
        ways = f"{', '.join(map(str, region.incoming)) or 'nothing'} → {', '.join(map(str, region.outgoing)) or 'nothing'}"
        yield f"manual {axes_text(region.axes)}", tail_text(region.path), ways, region.source
