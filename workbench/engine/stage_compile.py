"""The tasks of one stage compiled for its own devices, and sharded there as the plan's layout says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from workbench.engine.placement import named_sharding
from workbench.plan import Plan
from workbench.sharding import Sharding
from workbench.tracing.constrain import constrain
from workbench.tracing.stage_tasks import StageTasks, Task
from workbench.tracing.stage_update import StageUpdate, accumulator

Specs = Sequence[jax.ShapeDtypeStruct]


@dataclass(frozen=True)
class CompiledTask:
    """`compiled(*totals, *arguments) -> (token, *totals, *results)`.

    - `task`: what it computes; `totals`: places (in the segment's pieces) of the sums of gradients that it adds to, in place;
    - the token is a scalar of its own, to wait for: everything else may be donated to what comes next.
    """

    task: Task
    totals: tuple[int, ...]
    compiled: jax.stages.Compiled


@dataclass(frozen=True)
class StageDevices:
    """The devices of one stage, as a mesh of the plan's other axes, and what of the layout holds on it."""

    mesh: jax.sharding.Mesh
    plan: Plan

    def sharding(self, sharding: Sharding, *, layer: bool = False) -> NamedSharding:
        """Of an argument; of a slice of a stacked one its layer dimension is not split."""
        dims = ((), *sharding.dims[1:]) if layer else sharding.dims
        return named_sharding(Sharding(dims), self.mesh)

    @property
    def whole(self) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec())

    def like(self, sharding: Any) -> NamedSharding:
        """As another stage's array lies on its devices."""
        return NamedSharding(self.mesh, sharding.spec) if isinstance(sharding, NamedSharding) else self.whole


def stage_devices(plan: Plan, mesh: jax.sharding.Mesh, axis: str, number: int) -> StageDevices:
    """The devices at place `number` of mesh axis `axis`."""
    at = mesh.axis_names.index(axis)
    devices = np.take(mesh.devices, number, axis=at)
    names = tuple(name for name in mesh.axis_names if name != axis)
    if not names:
        devices, names = np.asarray(devices).reshape(1), ("device",)
    return StageDevices(jax.sharding.Mesh(devices, names, axis_types=(AxisType.Auto,) * len(names)), plan)


@dataclass
class StagePrograms:
    """Compiles a stage's tasks, each when it is first asked for; knows where each of their arrays lies.

    `entering` is given by the stages before: shardings of `Segment.entering`.
    """

    stage: StageTasks
    devices: StageDevices
    entering: tuple[NamedSharding, ...]
    pieces: tuple[NamedSharding, ...]
    batch: tuple[NamedSharding, ...]
    places: dict[tuple[str, int], NamedSharding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for group, shardings in (("pieces", self.pieces), ("batch", self.batch), ("entering", self.entering)):
            self.places.update({(group, i): each for i, each in enumerate(shardings)})
        departing = [self.entering[place] for place in self.stage.departing]
        self.places.update({("departing", i): each for i, each in enumerate(departing)})
        self.places.update({("gradient", i): each for i, each in enumerate(self.pieces)})
        self.places |= {("loss", 0): self.devices.whole, ("weight", 0): self.devices.whole}

    def compile(self, task: Task, name: str, arrivals: Sequence[int] = ()) -> CompiledTask:
        """One task; of a backward one `arrivals` says how many gradients arrive for each value that left, to be added first."""
        totals = tuple(place for group, place in task.gives if group == "gradient")
        results = [each for each in task.gives if each[0] != "gradient"]
        sums = [accumulator(self.stage.pieces[place]) for place in totals]
        counts = [arrivals[place] if group == "arriving" else 1 for group, place in task.reads]
        specs = [spec for spec, count in zip(task.specs, counts, strict=True) for _ in range(count)]
        shardings = [self.places[each] for each, count in zip(task.reads, counts, strict=True) for _ in range(count)]
        call = _accumulating(self._constrained(task), task, counts, len(totals))
        call.__name__ = name
        own = tuple(self.pieces[place] for place in totals)
        jitted = jax.jit(
            call,
            in_shardings=(*own, *shardings),
            out_shardings=(self.devices.whole, *own, *(self.places.get(each) for each in results)),
            donate_argnums=tuple(range(len(totals))),
            keep_unused=True,
        )
        compiled = jitted.lower(*sums, *specs).compile()
        for each, sharding in zip(results, compiled.output_shardings[1 + len(totals) :], strict=True):
            self.places.setdefault(each, self.devices.like(sharding))
            if each[0] == "leaving" and each[1] in self.stage.arriving:
                self.places.setdefault(("arriving", self.stage.arriving.index(each[1])), self.places[each])
        return CompiledTask(task, totals, compiled)

    def _constrained(self, task: Task) -> Callable[..., tuple[Any, ...]]:
        return constrain(task.call, self.devices.plan.layout.constraints, self.devices.mesh)


def _accumulating(call: Callable[..., tuple[Any, ...]], task: Task, counts: Sequence[int], width: int) -> Any:
    """`(*totals, *arguments) -> (token, *totals, *results)`: gradients added to totals, several that arrive for one value added up."""
    gradients = [i for i, (group, _) in enumerate(task.gives) if group == "gradient"]

    def run(*values: Any) -> tuple[Any, ...]:
        totals, rest = values[:width], list(values[width:])
        arguments = []
        for count in counts:
            first, *more = rest[:count]
            del rest[:count]
            for each in more:
                first = first + each
            arguments.append(first)
        results = call(*arguments)
        with jax.named_scope("accumulate"):
            fresh = [total + results[i].astype(total.dtype) for total, i in zip(totals, gradients, strict=True)]
        others = [each for i, each in enumerate(results) if i not in gradients]
        return (jnp.zeros(()), *fresh, *others)

    return run


def compile_update(
    update: StageUpdate,
    pieces: tuple[Specs, Sequence[NamedSharding]],
    state: tuple[Specs, Sequence[NamedSharding]],
    borrowed: tuple[Specs, Sequence[NamedSharding]],
    lent: Sequence[int],
    devices: StageDevices,
    total: float | None,
    number: int,
) -> jax.stages.Compiled:
    """`(*pieces, *state, *totals, *borrowed totals, *lent totals, [weight]) -> (token, *pieces, *state, *zeroed totals, *zeroed borrowed)`.

    Everything but the lent totals and the weight is updated in place. `borrowed` are totals of pieces that belong to another stage, to
    be set to zero; `lent` says of each total that came from another stage to which of the stage's own it is added.
    `total` is what the micro-batches weigh together, `None` if it comes as the last argument.
    """
    (piece_specs, piece_places), (state_specs, state_places), (borrowed_specs, borrowed_places) = pieces, state, borrowed
    n, s, b = len(piece_specs), len(state_specs), len(borrowed_specs)
    sums = [accumulator(spec) for spec in piece_specs]

    def run(*values: Any) -> tuple[Any, ...]:
        weights, moments, totals = values[:n], values[n : n + s], list(values[n + s : 2 * n + s])
        for place, each in zip(lent, values[2 * n + s + b :], strict=False):
            totals[place] = totals[place] + each
        fresh, after = update.call(weights, moments, totals, values[-1] if total is None else total)
        zeroed = [jnp.zeros(each.shape, each.dtype) for each in (*sums, *map(accumulator, borrowed_specs))]
        return (jnp.zeros(()), *fresh, *after, *zeroed)

    run.__name__ = f"update_{number}"
    places = [*piece_places, *state_places, *piece_places, *borrowed_places]
    weight = [jax.ShapeDtypeStruct((), jnp.float32)] if total is None else []
    jitted = jax.jit(
        run,
        in_shardings=(*places, *(piece_places[i] for i in lent), *([devices.whole] * len(weight))),
        out_shardings=(devices.whole, *places),
        donate_argnums=tuple(range(2 * n + s + b)),
        keep_unused=True,
    )
    specs = [*piece_specs, *state_specs, *sums, *map(accumulator, borrowed_specs), *(sums[i] for i in lent), *weight]
    return jitted.lower(*specs).compile()
