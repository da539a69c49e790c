"""What a traced function says of shardings by itself: its constraints, the types of explicit mode, its manual regions. A value; `print` it.

- `with_sharding_constraint`, `jax.reshard` and an explicit-mode `out_sharding` are constraints on the value they stand at;
- an argument whose type carries a sharding (`AxisType.Explicit`) says where it is meant to lie; a plan may lay it otherwise;
- in a `shard_map` the function itself says what each device does along the manual axes; propagation leaves those alone.
"""

from dataclasses import dataclass

from workbench.core.sharding import Sharding


@dataclass(frozen=True, slots=True)
class SourceConstraint:
    """A value the function lays out itself: its path, the user's line, and how; `times` such at this place."""

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
    """A `shard_map`: the axes it is manual over, and how operands come in and results go out; an open dimension is propagation's."""

    path: str
    source: str
    axes: tuple[str, ...]
    incoming: tuple[Sharding, ...]
    outgoing: tuple[Sharding, ...]


@dataclass(frozen=True, slots=True)
class SourceAnnotations:
    """All of them, in the order of the program; `mesh` are the axes they speak of, with the sizes they had in the trace."""

    mesh: tuple[tuple[str, int], ...] = ()
    types: tuple[SourceType, ...] = ()
    constraints: tuple[SourceConstraint, ...] = ()
    regions: tuple[ManualRegion, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.types or self.constraints or self.regions)

    def __str__(self) -> str:
        from workbench.text.source_annotations import source_annotations_text

        return source_annotations_text(self)
