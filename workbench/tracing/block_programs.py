"""Each block of a network as programs of its own, so that the planner can price it: its forward pass, and forward and backward together.

Blocks that are alike (the layers of a stack) are one program.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax

from workbench.program import Program, Step
from workbench.tensor import Role
from workbench.tracing.cut import Cut, cut_network
from workbench.tracing.function import build_program
from workbench.tracing.network import Network
from workbench.tracing.split_batch import BATCH
from workbench.tracing.stage_tasks import StageTasks, Task
from workbench.tracing.work import flops_of, size_of

_GROUPS = {"entering": "entering", "arriving": "arriving", "kept": "kept"}


@dataclass(frozen=True)
class BlockTasks:
    """One block as a stage of its own. `cut` cuts the network at every block."""

    stage: StageTasks

    @cached_property
    def likeness(self) -> tuple[Any, ...]:
        """Equal for blocks that compute alike on alike values."""
        cut, segment = self.stage.cut, self.stage.segment
        shapes = [(spec.shape, str(spec.dtype)) for spec in (*self.stage.pieces, *self.stage.batch, *self.stage.entering)]
        parts = [cut.network.flat.pieces[i][0].leaf if cut.network.flat.pieces[i][0].layer is not None else None for i in segment.pieces]
        return (*shapes, *parts, segment.flops, tuple(self.primitives))

    @cached_property
    def primitives(self) -> list[str]:
        network, number = self.stage.cut.network, self.stage.segment.number
        end = network.begins[number + 1] if number + 1 < len(network.begins) else len(network.proper)
        return [eqn.primitive.name for eqn in network.proper[network.begins[number] : end]]

    @cached_property
    def kept(self) -> "Kept":
        """What its backward pass reads of a micro-batch, beyond weights and batch."""
        linear = self.stage._linear  # noqa: SLF001 - the same noun from its other side
        inputs = linear.closed.jaxpr.invars
        first = len(self.stage.pieces) + len(self.stage.batch)
        segment = self.stage.segment
        outvars = linear.closed.jaxpr.outvars
        leaving = {var: value for var, value in zip(outvars, segment.leaving, strict=False) if not hasattr(var, "val")}
        results = len(segment.leaving)
        residuals = {var for var in outvars[results:] if not hasattr(var, "val")}
        entering = {value for var, value in zip(inputs[first:], segment.entering, strict=True) if var in residuals}
        made = {leaving[var] for var in linear.kept if var in leaving}
        return Kept(frozenset(entering | made), sum(size_of(var.aval) for var in linear.kept if var not in leaving))

    @cached_property
    def weight_share(self) -> float:
        """The share of the operations of the backward pass that the gradients of weights alone need."""
        halves = [self.stage.backward_input(recompute=False), self.stage.backward_weight(recompute=False)]
        work = [_task_flops(task) for task in halves]
        return work[1] / sum(work) if sum(work) else 0.0

    def programs(self) -> tuple[Program, Program]:
        """Its forward pass, and forward and backward pass, as the planner takes them; nothing is run."""
        return self._program(self.stage.forward, "forward"), self._program(self.stage.forward_and_backward, "forward and backward")

    def backward_program(self, *, recompute: bool) -> Program:
        """Its backward pass alone."""
        return self._program(self.stage.backward(recompute=recompute), "backward")

    def _program(self, task: Task, title: str) -> Program:
        paths = [self._path(group, place) for group, place in task.reads]
        roles = [Role.PARAMETER if group == "pieces" else Role.INPUT for group, _ in task.reads]
        results = [(f"{group}/{place}", Role.OUTPUT) for group, place in task.gives]
        name = f"{self.stage.segment.blocks[0]}, {title}"
        specs = list(task.specs)
        step = Step(task.call, lambda _key, _given: (), lambda _step: ())
        return build_program(name, step, paths, specs, roles, results, (), self._dims(paths, task), None)

    def _path(self, group: str, place: int) -> str:
        if group == "pieces":
            piece = self.stage.segment.pieces[place]
            return self.stage.cut.path(piece).replace("[", "/").rstrip("]")
        if group == "batch":
            return self.stage.cut.network.batch_paths[self.stage.segment.batch[place]]
        return f"{_GROUPS[group]}/{place}"

    def _dims(self, paths: Sequence[str], task: Task) -> dict[str, str]:
        """The first dimension of what is carried is the batch's if it is as large."""
        size = _batch_size(self.stage.cut.network)
        found = {}
        for path, spec in zip(paths, task.specs, strict=True):
            carried = path.partition("/")[0] in ("entering", "arriving", "kept", "batch")
            if carried and spec.shape and spec.shape[0] == size:
                found[f"/{path}"] = f"{BATCH} ..."
        return found


@dataclass(frozen=True, slots=True)
class Kept:
    """`values`: those of the cut at every block; `inside`: bytes of others that no one else reads."""

    values: frozenset[int]
    inside: int


def _batch_size(network: Network) -> int:
    return next((var.aval.shape[0] for var in network.flat.batch if var.aval.shape), 0)


def _task_flops(task: Task) -> int:
    if not task.gives:
        return 0
    return sum(map(flops_of, jax.make_jaxpr(task.call)(*task.specs).jaxpr.eqns))


def cut_everywhere(network: Network) -> Cut:
    return cut_network(network, range(1, len(network.begins)))


def block_tasks(network: Network) -> tuple[BlockTasks, ...]:
    """The blocks of a network, each as a stage of its own."""
    cut = cut_everywhere(network)
    return tuple(BlockTasks(StageTasks(cut, segment)) for segment in cut.segments)
