"""What a stage holds of the program: its slices of parameters, their gradients and the optimiser's state, and what micro-batches keep."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from workbench.core.sharding import Sharding
from workbench.core.tensor import Role, Tensor
from workbench.pipeline.block_layouts import tasks_of
from workbench.pipeline.estimate_stage_costs import block_costs
from workbench.pipeline.kept_bytes import KeptByBlock
from workbench.pipeline.resident_bytes import leaves_of_arguments, weigh_params
from workbench.pipeline.stage_reports.stage_work import StageWork
from workbench.pipeline.value_bytes import value_bytes
from workbench.reports.memory import Alive
from workbench.reports.placement import Placement


@dataclass(frozen=True, eq=False)
class ResidentSlices:
    """The slices of one stage. A parameter that several virtual stages read is held, with its gradient, by each; the first of all updates
    it, and has the optimiser's state."""

    work: StageWork

    @cached_property
    def _counts(self) -> tuple[Counter[int], Counter[int]]:
        """For each parameter slice: how many virtual stages of this stage hold it, and how many update it."""
        planned, tasks = self.work.planned, tasks_of(self.work.staged.network)
        ends = list(accumulate(len(each.blocks) for each in planned.virtual_stages))
        held, owned, seen = Counter[int](), Counter[int](), set[int]()
        for virtual_stage, end in zip(planned.virtual_stages, ends, strict=True):
            blocks = tasks[end - len(virtual_stage.blocks) : end]
            slices = {each for task in blocks for each in task.stage.virtual_stage.param_slices}
            if virtual_stage.device == self.work.device:
                held.update(slices)
                owned.update(slices - seen)
            seen |= slices
        return held, owned

    @cached_property
    def by_role(self) -> dict[Role, int]:
        """Bytes that stay throughout the step; their sum is the resident bytes of the stage."""
        weights = weigh_params(self.work.staged.plan, self.work.staged.network)
        held, owned = self._counts
        return {
            Role.PARAMETER: sum(weights[each].param * count for each, count in held.items()),
            Role.GRADIENT: sum(weights[each].sums * count for each, count in held.items()),
            Role.OPTIMIZER_STATE: sum(weights[each].state * count for each, count in owned.items()),
        }

    @cached_property
    def alive(self) -> tuple[Alive, ...]:
        """The same by path: each parameter, its gradients, and the optimiser's state for it."""
        network = self.work.staged.network
        weights = weigh_params(self.work.staged.plan, network)
        held, owned = self._counts
        found: dict[tuple[str, Role], list[int]] = {}
        for role, counts in ((Role.PARAMETER, held), (Role.GRADIENT, held), (Role.OPTIMIZER_STATE, owned)):
            for each, count in counts.items():
                size = {Role.PARAMETER: weights[each].param, Role.GRADIENT: weights[each].sums}.get(role, weights[each].state)
                path = network.parameter_paths[network.flat.param_slices[each][0].leaf]
                entry = found.setdefault((path, role), [0, 0])
                entry[0] += size * count
                entry[1] += count
        return tuple(Alive(path, role, size, count) for (path, role), (size, count) in found.items())

    def kept_parts(self, stage: int, *, recomputed: bool) -> Iterator[tuple[str, int]]:
        """What one micro-batch keeps on a virtual stage, by block, in bytes."""
        staged = self.work.staged
        starts = tuple(accumulate(len(each.blocks) for each in self.work.planned.virtual_stages[:-1]))
        sizes = [each.held for each in value_bytes(self.work.context, staged.network)]
        kept = KeptByBlock(sizes, block_costs(staged), tasks_of(staged.network), starts)
        why = "its input, to compute it again" if recomputed else "kept for its backward pass"
        for block, size in kept.input_activations(stage) if recomputed else kept.residuals(stage):
            yield f"{staged.network.paths[block]} ({why})", size

    @cached_property
    def arguments(self) -> tuple[Placement, ...]:
        """The arguments of the program, of each the layers that the stage holds; the batch where it reads it."""
        plan, network = self.work.staged.plan, self.work.staged.network
        leaves = leaves_of_arguments(network, plan.program.arguments)
        placed = zip(plan.program.arguments, plan.argument_shardings, leaves, strict=True)
        return tuple(found for each in placed if (found := self._place(*each)) is not None)

    def _place(self, tensor: Tensor, sharding: Sharding, leaf: int) -> Placement | None:
        """The tensor with the layers that the stage holds of it; `None` where it holds nothing."""
        mesh = self.work.staged.plan.mesh
        if tensor.role is Role.INPUT:
            return Placement(tensor, sharding, mesh) if tensor.path in self._batch_paths else None
        counts, slices = self._counts[tensor.role is Role.OPTIMIZER_STATE], self.work.staged.network.flat.param_slices
        layers = [slices[each][0].layer for each in self._slices_of_leaf.get(leaf, ()) if each in counts]
        if not layers or None in layers:
            return Placement(tensor, sharding, mesh) if layers else None
        return Placement(replace(tensor, shape=(len(layers), *tensor.shape[1:])), Sharding(((), *sharding.dims[1:])), mesh)

    @cached_property
    def _slices_of_leaf(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number, (param_slice, _) in enumerate(self.work.staged.network.flat.param_slices):
            found.setdefault(param_slice.leaf, []).append(number)
        return found

    @cached_property
    def _batch_paths(self) -> frozenset[str]:
        network, tasks = self.work.staged.network, tasks_of(self.work.staged.network)
        number = {path: place for place, path in enumerate(network.paths)}
        leaves = {leaf for block in self.work.blocks for leaf in tasks[number[block.path]].stage.virtual_stage.batch}
        return frozenset(network.batch_paths[leaf] for leaf in leaves)
