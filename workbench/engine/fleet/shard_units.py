"""Shard units of one model as functions over named arrays (Hydra TR, section 4).

A unit reads and writes arrays by name; the executor moves them between host and device and knows nothing else about a model:

    piece n        a parameter slice: a parameter, or one layer's slice of a stacked one
    state s, i, l  a leaf of the optimizer state (slice l of it); each shard s has a separate step count
    batch i        a leaf of the mini-batch
    value v        computed by one shard and read by another; kept until the last backward unit that reads it
    cotangent v    its gradient, summed over the shards that read it
    partial n      the gradient so far of a piece that another shard owns
    weight         the weight of the mini-batch's loss, if the loss has one

The units of a mini-batch are F_0 ... F_{S-2}, the last shard's forward and backward in one, then B_{S-2} ... B_0; a backward unit
recomputes its shard from the values that it read, and updates the parameters of its shard.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.multimodel import Pass
from workbench.tracing.stage_partition.partition_network import StagePartition
from workbench.tracing.stage_partition.stage_tasks import StageTasks, TracedStageTask
from workbench.tracing.stage_partition.stage_update import StageUpdate, accumulator, owners, stage_update, verify_separable

Key = tuple[Any, ...]
WEIGHT: Key = ("weight",)
LOSS: Key = ("loss",)


@dataclass(frozen=True)
class UnitFunction:
    """A unit as a traceable function `call(*arrays of reads) -> arrays of writes`.

    Arrays that are both read and written are updated in place; `frees` are not read again.
    """

    shard: int
    kind: Pass
    reads: tuple[Key, ...]
    specs: tuple[jax.ShapeDtypeStruct, ...]
    writes: tuple[Key, ...]
    frees: tuple[Key, ...]
    call: Callable[..., tuple[Any, ...]]

    @property
    def input_bytes(self) -> int:
        return sum(spec.size * spec.dtype.itemsize for spec in self.specs)

    @property
    def donated(self) -> tuple[int, ...]:
        """Argument numbers of arrays updated in place."""
        return tuple(place for place, key in enumerate(self.reads) if key in self.writes)


@dataclass(frozen=True)
class ModelUnits:
    """Units of one mini-batch of a program partitioned into shards.

    Raises `PipelineError` for an optimizer that reads all parameters together (`verify_separable`).
    """

    program: Program
    partition: StagePartition

    @cached_property
    def functions(self) -> tuple[UnitFunction, ...]:
        verify_separable(self.program)
        last = len(self.partition.virtual_stages) - 1
        forward = [self._forward(shard) for shard in range(last)]
        units = [*forward, *(self._backward(shard) for shard in range(last, -1, -1))]
        return tuple(_with_frees(units))

    def of_shard(self, shard: int) -> tuple[UnitFunction, ...]:
        forward = [] if shard == len(self.partition.virtual_stages) - 1 else [self._forward(shard)]
        return (*forward, self._backward(shard))

    @cached_property
    def _tasks(self) -> tuple[StageTasks, ...]:
        return tuple(StageTasks(self.partition, virtual_stage) for virtual_stage in self.partition.virtual_stages)

    @cached_property
    def _owners(self) -> tuple[int, ...]:
        return owners(self.partition)

    @property
    def _is_weighted(self) -> bool:
        return self.partition.network.flat.weight is not None

    def key(self, stage: StageTasks, group: str, place: int) -> Key:
        virtual_stage = stage.virtual_stage
        if group == "arriving":
            return ("cotangent", virtual_stage.output_activations[stage.arriving[place]])
        if group == "departing":
            return ("cotangent", virtual_stage.input_activations[stage.departing[place]])
        numbers = {
            "param_slices": virtual_stage.param_slices,
            "batch": virtual_stage.batch,
            "input_activations": virtual_stage.input_activations,
            "output_activations": virtual_stage.output_activations,
        }
        name = {"param_slices": "piece", "batch": "batch", "input_activations": "value", "output_activations": "value"}
        return (name[group], numbers[group][place])

    def _reads(self, stage: StageTasks, task: TracedStageTask) -> dict[Key, jax.ShapeDtypeStruct]:
        return {self.key(stage, *name): spec for name, spec in zip(task.reads, task.specs, strict=True)}

    def _forward(self, shard: int) -> UnitFunction:
        stage = self._tasks[shard]
        reads = self._reads(stage, stage.forward)
        writes = tuple(self.key(stage, *name) for name in stage.forward.gives)
        return UnitFunction(shard, Pass.FORWARD, tuple(reads), tuple(reads.values()), writes, (), stage.forward.call)

    def _backward(self, shard: int) -> UnitFunction:
        stage, update = self._tasks[shard], stage_update(self.program, self.partition, shard)
        task, is_last = stage.backward(recompute=True), stage.is_last
        reads = self._reads(stage, task) | (self._reads(stage, stage.forward) if is_last else {})
        cotangents = tuple(self.key(stage, *name) for name in task.gives if name[0] == "departing")
        partial: dict[Key, Any] = {
            ("cotangent", v): self.partition.values[v].aval for _, v in cotangents if shard != max(self.partition.values[v].readers)
        }
        param_slices = self.partition.network.flat.param_slices
        borrowed_grads = tuple(n for n in self._list_trained(stage) if self._owners[n] != shard)
        borrowed = {n: self.partition.shared.get(n, ()) for n in (*update.owned, *borrowed_grads)}
        later = [n for n, users in borrowed.items() if users and shard != max(users)]
        partial |= {("partial", n): self.accumulator(param_slices[n][1].aval) for n in later}
        weight: dict[Key, Any] = {} if is_last or not self._is_weighted else {WEIGHT: jax.ShapeDtypeStruct((), jnp.float32)}
        state: dict[Key, Any] = {
            ("state", shard, *place): spec for place, spec in zip(update.state, self._state_specs(update), strict=True)
        }
        owned: dict[Key, Any] = {("piece", n): param_slices[n][1].aval for n in update.owned}
        reads = {key: _spec(aval) for key, aval in {**owned, **state, **partial, **weight, **reads}.items()}
        results = (LOSS, *([WEIGHT] if self._is_weighted else [])) if is_last else ()
        writes = (*owned, *state, *cotangents, *(("partial", n) for n in borrowed_grads), *results)
        run = _Backward(self, stage, update, task, tuple(reads), cotangents, borrowed_grads, frozenset(partial))
        kind = Pass.FORWARD_LOSS if is_last else Pass.BACKWARD
        return UnitFunction(shard, kind, tuple(reads), tuple(reads.values()), writes, (), run)

    def accumulator(self, spec: Any) -> jax.ShapeDtypeStruct:
        """Return the shape and dtype in which the gradient of a parameter slice is accumulated."""
        return accumulator(spec, self.partition.network.sums)

    def _list_trained(self, stage: StageTasks) -> tuple[int, ...]:
        return tuple(stage.virtual_stage.param_slices[place] for place in stage.trained)

    def _state_specs(self, update: StageUpdate) -> list[jax.ShapeDtypeStruct]:
        specs = []
        for argument, layer in update.state:
            tensor = self.program.arguments[argument]
            shape = tensor.shape if layer is None else (1, *tensor.shape[1:])
            specs.append(jax.ShapeDtypeStruct(shape, jnp.dtype(tensor.dtype)))
        return specs

    def initial(self, leaves: Sequence[Any]) -> dict[Key, Any]:
        """Return parameter slices and optimizer state from the program's state leaves, in the order of `Program.state`."""
        argument = dict(zip(self.program.state, leaves, strict=True))
        params = [i for i in self.program.state if self.program.arguments[i].role is Role.PARAMETER]
        arrays: dict[Key, Any] = {}
        for number, ((leaf, layer), _) in enumerate(self.partition.network.flat.param_slices):
            arrays["piece", number] = _slice(argument[params[leaf]], layer)
        for virtual_stage in self.partition.virtual_stages:
            for place in stage_update(self.program, self.partition, virtual_stage.number).state:
                arrays["state", virtual_stage.number, *place] = _slice(argument[place[0]], place[1])
        return arrays


@dataclass(frozen=True)
class _Backward:
    """Computation of a backward unit; `reads` and `writes` of its `UnitFunction` define the order of its arrays."""

    units: ModelUnits
    stage: StageTasks
    update: StageUpdate
    task: TracedStageTask
    reads: tuple[Key, ...]
    given: tuple[Key, ...]
    borrowed_grads: tuple[int, ...]
    partial: frozenset[Key]

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        at = dict(zip(self.reads, arrays, strict=True))
        loss, weight = self._compute_loss(at)
        gradients, cotangents = self._sum_gradients(at)
        owned = [gradients.get(n, None) for n in self.update.owned]
        param_slices = [at["piece", n] for n in self.update.owned]
        sums = [
            jnp.zeros(param.shape, param.dtype) if gradient is None else gradient
            for param, gradient in zip(param_slices, owned, strict=True)
        ]
        state = [at["state", self.stage.virtual_stage.number, *place] for place in self.update.state]
        fresh, moments = self.update.call(param_slices, state, sums, 1.0 if weight is None else weight)
        return (*fresh, *moments, *(cotangents[key] for key in self.given), *(gradients[n] for n in self.borrowed_grads), *loss)

    def _compute_loss(self, at: dict[Key, Any]) -> tuple[tuple[Any, ...], Any]:
        """Return the loss (and weight) to report, and the weight that gradients are divided by."""
        if not self.stage.is_last:
            return (), at.get(WEIGHT)
        forward = self.stage.forward
        results = forward.call(*(at[self.units.key(self.stage, *name)] for name in forward.reads))
        outputs = dict(zip(forward.gives, results, strict=True))
        weight = outputs.get(("weight", 0))
        loss = outputs["loss", 0]
        return ((loss,), None) if weight is None else ((loss / weight, weight.astype(jnp.float32)), weight)

    def _sum_gradients(self, at: dict[Key, Any]) -> tuple[dict[int, Any], dict[Key, Any]]:
        key = self.units.key
        results = self.task.call(*(at[key(self.stage, *read)] for read in self.task.reads))
        gradients: dict[int, Any] = {n: at["partial", n] for kind, n in self.partial if kind == "partial"}
        cotangents: dict[Key, Any] = {name: at[name] for name in self.partial if name[0] == "cotangent"}
        for (group, place), value in zip(self.task.gives, results, strict=True):
            if group == "gradient":
                n = self.stage.virtual_stage.param_slices[place]
                gradient = value.astype(self.units.accumulator(value).dtype) if n in self.units.partition.shared else value
                gradients[n] = gradients[n] + gradient if n in gradients else gradient
            else:
                name = key(self.stage, group, place)
                cotangents[name] = cotangents[name] + value if name in cotangents else value
        return gradients, cotangents


def _with_frees(functions: Sequence[UnitFunction]) -> list[UnitFunction]:
    """Set `frees` to the arrays without later readers in the mini-batch; parameters, state and batch stay."""
    last_use = {key: place for place, function in enumerate(functions) for key in (*function.reads, *function.writes)}
    transient = [key for key in last_use if key[0] not in ("piece", "state", "batch", "loss")]
    return [replace(function, frees=tuple(key for key in transient if last_use[key] == place)) for place, function in enumerate(functions)]


def _slice(leaf: Any, layer: int | None) -> Any:
    return leaf if layer is None else leaf[layer : layer + 1]


def _spec(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)
