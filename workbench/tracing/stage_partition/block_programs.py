"""Each block of a network as separate programs for estimates: forward, backward, and both together. Equal blocks share
a program.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import jax
from jax.extend import core as jex_core

from workbench.core.program import Program, Step
from workbench.core.tensor import Role
from workbench.tracing.grad_accumulation.accumulate_gradients import accumulate_grads, split_task
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups
from workbench.tracing.jaxpr.equations import flops_of, variables
from workbench.tracing.stage_partition.partition_network import StagePartition, partition_network
from workbench.tracing.stage_partition.stage_tasks import StageTasks, TracedStageTask
from workbench.tracing.stage_partition.trace_network import Network
from workbench.tracing.trace_function import build_program

TOTAL = "total"  # path prefix of the sum of a parameter's gradients


@dataclass(frozen=True)
class BlockTasks:
    """One block as a separate stage; `like`: an earlier equal block, if any, whose traces stand for both."""

    stage: StageTasks
    like: "BlockTasks | None" = None

    @property
    def exemplar(self) -> "BlockTasks":
        return self.like or self

    @cached_property
    def structural_key(self) -> tuple[Any, ...]:
        """Equal for blocks with equal computations, inputs and gradients."""
        partition, virtual_stage = self.stage.partition, self.stage.virtual_stage
        output_activations = [
            (partition.values[value].aval.shape, str(partition.values[value].aval.dtype)) for value in virtual_stage.output_activations
        ]
        return (len(self.stage.input_activations), self.layer_key, *output_activations, *self._equations())

    @cached_property
    def layer_key(self) -> tuple[Any, ...]:
        """Equal for blocks with equal signatures, whether their inputs are the batch or derived from it."""
        partition, virtual_stage = self.stage.partition, self.stage.virtual_stage
        shapes = [(spec.shape, str(spec.dtype)) for spec in (*self.stage.param_slices, *self.stage.batch, *self.stage.input_activations)]
        parts = [
            partition.network.flat.param_slices[i][0].leaf if partition.network.flat.param_slices[i][0].layer is not None else None
            for i in virtual_stage.param_slices
        ]
        return (*shapes, *parts, virtual_stage.flops, *(name for name, *_ in self._equations()))

    def _equations(self) -> Iterator[tuple[Any, ...]]:
        network, number = self.stage.partition.network, self.stage.virtual_stage.number
        end = network.block_starts[number + 1] if number + 1 < len(network.block_starts) else len(network.proper)
        seen: dict[Any, int] = {}
        for eqn in network.proper[network.block_starts[number] : end]:
            yield eqn.primitive.name, *(seen.setdefault(var, len(seen)) for var in variables((*eqn.invars, *eqn.outvars)))

    @cached_property
    def residuals(self) -> "BlockResiduals":
        """The values of a micro-batch that its backward pass reads, beyond weights and batch."""
        input_activations, output_activations, inside = self.exemplar._residual_places  # noqa: SLF001 - another block of this class
        virtual_stage = self.stage.virtual_stage
        return BlockResiduals(
            frozenset(
                (
                    *(virtual_stage.input_activations[i] for i in input_activations),
                    *(virtual_stage.output_activations[i] for i in output_activations),
                )
            ),
            inside,
        )

    @cached_property
    def _residual_places(self) -> tuple[list[int], list[int], tuple[int, ...]]:
        """Positions of residuals among the block's inputs and outputs, and of the others in the forward pass's `kept`."""
        linear = self.stage._linear  # noqa: SLF001 - the same noun from its other side
        inputs = linear.closed.jaxpr.invars
        first = len(self.stage.param_slices) + len(self.stage.batch)
        outvars = linear.closed.jaxpr.outvars
        results = len(self.stage.virtual_stage.output_activations)
        output_activations = {var: place for place, var in enumerate(outvars[:results]) if not isinstance(var, jex_core.Literal)}
        residuals = {*variables(outvars[results:])}
        input_activations = [place for place, var in enumerate(inputs[first:]) if var in residuals]
        output_places = [output_activations[var] for var in linear.kept if var in output_activations]
        return input_activations, output_places, tuple(place for place, var in enumerate(linear.kept) if var not in output_activations)

    @cached_property
    def weight_share(self) -> float:
        """The fraction of the backward pass's FLOP that only weight gradients need."""
        work = [_task_flops(task) for task in self._halves]
        return work[1] / sum(work) if sum(work) else 0.0

    @cached_property
    def _halves(self) -> tuple[TracedStageTask, TracedStageTask]:
        return self.stage.backward_input(recompute=False), self.stage.backward_weight(recompute=False)

    @cached_property
    def forward_program(self) -> Program:
        """The forward pass as a program for estimates; it never runs."""
        return self._make_program(self.stage.forward, "forward")

    def both_program(self, parts: DataParallelGroups) -> Program:
        """Forward and backward pass as one program without recomputation. Traced once."""
        block_parts = parts.among(self.stage.virtual_stage.param_slices)
        if block_parts not in self._known_both:
            self._known_both[block_parts] = self._make_program(self._split_both(block_parts)[0], "forward and backward")
        return self._known_both[block_parts]

    @cached_property
    def _known_both(self) -> dict[DataParallelGroups, Program]:
        return {}

    def list_partial_sums(self, parts: DataParallelGroups) -> tuple[int, ...]:
        places = self.exemplar._split_both(parts)[1]  # noqa: SLF001 - as `residuals`
        return tuple(self.stage.virtual_stage.param_slices[place] for place in sorted(places))

    def _split_both(self, parts: DataParallelGroups) -> tuple[TracedStageTask, frozenset[int]]:
        """Forward and backward pass as one task, and the positions of slices with split gradients; cached."""
        block_parts = parts.among(self.stage.virtual_stage.param_slices)
        if block_parts not in self._known_splits:
            self._known_splits[block_parts] = split_task(self.stage, self.stage.forward_and_backward, block_parts)
        return self._known_splits[block_parts]

    @cached_property
    def _known_splits(self) -> dict[DataParallelGroups, tuple[TracedStageTask, frozenset[int]]]:
        return {}

    @cached_property
    def keeping_program(self) -> Program:
        """Its forward pass, which also returns the residuals of the backward pass."""
        return self._make_program(self.stage.forward_keeping, "forward")

    def backward_program(self, parts: DataParallelGroups, *, recompute: bool, add_separately: bool) -> Program:
        """Its backward pass, which reads or recomputes residuals; arguments as in `accumulate_grads`. Cached."""
        key = parts.among(self.stage.virtual_stage.param_slices), recompute, add_separately
        if key not in self._known_backward:
            task = self.stage.backward(recompute=recompute)
            self._known_backward[key] = self.running_program(task, "backward", key[0], add_separately=add_separately)
        return self._known_backward[key]

    @cached_property
    def _known_backward(self) -> dict[tuple[DataParallelGroups, bool, bool], Program]:
        return {}

    def half_programs(self, parts: DataParallelGroups, *, recompute: bool, add_separately: bool) -> tuple[Program | None, Program | None]:
        """The gradients of its inputs and those of its weights as programs, `None` where there are none."""
        tasks = self.stage.backward_input(recompute=recompute), self.stage.backward_weight(recompute=recompute)
        titles = "gradient of the input", "gradient of the weights"
        first, second = (
            self.running_program(task, title, parts, add_separately=add_separately) if task.gives else None
            for task, title in zip(tasks, titles, strict=True)
        )
        return first, second

    def _make_program(self, task: TracedStageTask, title: str) -> Program:
        paths = [self._path_of(group, place) for group, place in task.reads]
        roles = [Role.PARAMETER if group == "param_slices" else Role.INPUT for group, _ in task.reads]
        results = [(f"{group}/{place}", Role.OUTPUT) for group, place in task.gives]
        return self._build(title, task.call, paths, list(task.specs), roles, results, 0)

    def running_program(self, task: TracedStageTask, title: str, parts: DataParallelGroups, *, add_separately: bool) -> Program:
        """The task with accumulators: arguments `total/...`, replaced by results of the same name."""
        whole = accumulate_grads(self.stage, task, parts, add_separately=add_separately)
        totals = [f"{TOTAL}/{self._path_of('param_slices', place)}" for place in whole.totals]
        numbered: Counter[tuple[str, int]] = Counter()
        paths = [*totals]
        for read in whole.reads:
            paths.append(self._path_of(*read) + (f"/{numbered[read]}" if numbered[read] else ""))
            numbered[read] += 1
        roles = [Role.PARAMETER if group == "param_slices" else Role.INPUT for group, _ in whole.reads]
        results = [(path, Role.GRADIENT) for path in totals] + [(f"{group}/{place}", Role.OUTPUT) for group, place in whole.gives]
        roles = [Role.GRADIENT] * len(totals) + roles
        partial = [paths[len(totals) + i] for i in whole.partial]
        return self._build(title, whole.call, paths, [*whole.sums, *whole.specs], roles, results, len(totals), partial)

    def _build(
        self,
        title: str,
        call: Callable[..., tuple[Any, ...]],
        paths: list[str],
        specs: list[jax.ShapeDtypeStruct],
        roles: list[Role],
        results: list[tuple[str, Role]],
        carried: int,
        partial: Sequence[str] = (),
    ) -> Program:
        """A program with `carried` results for its first arguments; arguments `partial` are sharded by batch."""
        name = f"{self.stage.virtual_stage.blocks[0]}, {title}"
        step = Step(call, lambda _key, _given: (), lambda _step: ())
        places = tuple((i, i) for i in range(carried))
        dims = self._name_dims(paths, specs) | {f"/{path}": f"{self.stage.partition.network.batch_dim} ..." for path in partial}
        return build_program(name, step, paths, specs, roles, results, places, dims, None)

    def _path_of(self, group: str, place: int) -> str:
        if group == "param_slices":
            network = self.stage.partition.network
            (leaf, layer), _ = network.flat.param_slices[self.stage.virtual_stage.param_slices[place]]
            return network.parameter_paths[leaf] + ("" if layer is None else f"/{layer}")
        if group == "batch":
            return self.stage.partition.network.batch_paths[self.stage.virtual_stage.batch[place]]
        return f"{group}/{place}"

    def _name_dims(self, paths: Sequence[str], specs: Sequence[jax.ShapeDtypeStruct]) -> dict[str, str]:
        """Dimension names of the whole program, used by a layout's rules; carried values get matching leading names."""
        dims_by_path, sizes = self.stage.partition.network.dims, self.stage.partition.network.batch_sizes
        names_by_path = {}
        for path, spec in zip(paths, specs, strict=True):
            whole = path.removeprefix(f"{TOTAL}/")
            names = dims_by_path.get(whole) or dims_by_path.get(whole.rpartition("/")[0], ())
            if len(names) != len(spec.shape):
                leading = spec.shape if spec.shape == tuple(size for _, size in sizes) else spec.shape[: max(len(spec.shape) - 1, 1)]
                names = tuple(name for (name, _), _ in takewhile(_is_as_large, zip(sizes, leading, strict=False)))
            if names:
                names_by_path[f"/{path}"] = (
                    " ".join(("_" if size == 1 else name for name, size in zip(names, spec.shape, strict=False))) + " ..."
                )
        return names_by_path


@dataclass(frozen=True, slots=True)
class BlockResiduals:
    """Residuals by number in the partition at every block, and by position in `kept` if only this block reads them."""

    values: frozenset[int]
    inside: tuple[int, ...]


def _is_as_large(pair: tuple[tuple[str, int], int]) -> bool:
    (_, size), other = pair
    return size == other


def _task_flops(task: TracedStageTask) -> int:
    if not task.gives:
        return 0
    return sum(map(flops_of, task.equations))


def partition_at_every_block(network: Network) -> StagePartition:
    return partition_network(network, range(1, len(network.block_starts)))


def block_tasks(network: Network) -> tuple[BlockTasks, ...]:
    """The blocks of a network, each as a separate stage."""
    partition = partition_at_every_block(network)
    first: dict[tuple[Any, ...], BlockTasks] = {}
    blocks = []
    for virtual_stage in partition.virtual_stages:
        block = BlockTasks(StageTasks(partition, virtual_stage))
        earlier = first.setdefault(block.structural_key, block)
        blocks.append(block if earlier is block else BlockTasks(block.stage, earlier))
    return tuple(blocks)
