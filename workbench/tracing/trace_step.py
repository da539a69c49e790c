"""A train step of one's own: what it takes and returns again is carried from step to step, whatever it computes between."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from workbench.core.offload import ALL_ON_DEVICE, Offload
from workbench.core.precision import AS_WRITTEN, Precision
from workbench.core.program import Program, Reference, Step
from workbench.core.remat import AS_TRACED, Remat
from workbench.core.tensor import Role
from workbench.errors import OffloadError, PrecisionError, RematError, TraceError
from workbench.tracing.carried_arguments import STATE_NAMES, ResultPart, ResultReads, Stated, StepArgument, find_carried, stated_carried
from workbench.tracing.leaves import Leaves, named_leaves
from workbench.tracing.mesh_context import keep_mesh
from workbench.tracing.model_state import first_difference
from workbench.tracing.retraced_variants import Variants
from workbench.tracing.trace_function import (
    PARAMETER_NAMES,
    Dims,
    argument_names,
    build_program,
    fed_leaves,
    guard_tracing,
    host_array,
    init_leaves,
    name_of,
    sources_of,
    verify_callable,
)

_OPTIMIZER_NAMES = ("opt_state", "opt_states", "optimizer_state", "optimizer", "opt")
_READ_PARAMETER_NAMES = ("params", "parameters", "variables", "model")  # `weights` may be those of samples


def trace_step(
    step: Callable[..., Any],
    *args: Any,
    dims: Dims = None,
    name: str | None = None,
    init: Callable[[Any], Any] | None = None,
    data: Callable[[int], Any] | None = None,
    carried: Stated = None,
    reference: Reference | None = None,
) -> Program:
    """The program of a train step as one writes it: `step(state, batch) -> (state, metrics)`, `step(params, opt_state, batch) -> (params,
    opt_state, loss)`, with as many models and optimisers as there are.

    **Arguments:** `args` are pytrees of arrays or `jax.ShapeDtypeStruct`s. An argument is carried to the next step by the result that has
    its pytree structure, keys, shapes and dtypes, wherever the step returns it; arguments of one structure are carried in order. A bare
    array is carried if its name says that it is state (`opt_state`, `key`, `count`), if its new value is computed from it alone, or if it
    is the first argument and the first result. `carried={"params": 0, "scale": 1}` states the result of each carried argument instead, as
    a position or a path, `"state/params"`. The report names what is carried.

    A leaf below a name such as `params` is a parameter, one below `opt_state` is the optimiser's, any other that is carried is the model's
    state. For a live run, `init(key)` makes what is carried, and `params` that are only read (several arguments: a tuple), where only
    shapes were given, and `data(step)` the other arguments. The loss is the first result called so, or else the first floating-point
    number.

    Raises `TraceError` if the step cannot be traced, carries nothing, or leaves open what it carries, `DimensionError` if names do not fit.
    A plan does not change its remat, precision or offload.

    >>> spec = jax.ShapeDtypeStruct((4,), "float32")
    >>> program = trace_step(lambda params, batch: (params - batch, (params * batch).sum()), spec, spec, name="step")
    >>> [f"{each.path}: {each.role}" for each in program.arguments], program.step.loss
    (['params: parameter', 'batch: input'], 1)
    """
    verify_callable("step", step, "a function of state and a batch", "write `trace_step(step, state, batch)`")
    title = name or name_of(step)
    step = keep_mesh(step)
    trees = _step_arguments(argument_names(step, len(args)), args)
    tracer = _StepTracer(title, step, trees, dims, init, data, carried, reference)
    return Variants(tracer.program)(AS_TRACED, AS_WRITTEN, ALL_ON_DEVICE)


def _step_arguments(names: Sequence[str], args: Sequence[Any]) -> list[StepArgument]:
    found: list[StepArgument] = []
    for name, tree in zip(names, args, strict=True):
        found.append(_step_argument(name, tree, first=sum(len(each.paths) for each in found)))
    return found


def _step_argument(name: str, tree: Any, first: int) -> StepArgument:
    """One argument. The paths of one with parameters below a name (a `TrainState`) do not begin with the argument's name: `params/...`."""
    found = Leaves.of(name, tree)
    words = [path.split("/") for path in found.paths]
    has_params = name not in PARAMETER_NAMES and any(word in PARAMETER_NAMES for each in words for word in each[1:])
    paths = ["/".join(each[1:]) for each in words] if has_params else found.paths
    is_state = _is_called(name, (*PARAMETER_NAMES, *_OPTIMIZER_NAMES, *STATE_NAMES))
    return StepArgument(paths, found.examples, found.specs, found.structure, name, "" if has_params else name, first, is_state)


def role_of(path: str) -> Role:
    """The role of a leaf that is carried, by the first word of its path that says one.

    >>> [role_of(path).value for path in ("actor/params/w", "critic_params/w", "opt_state/0/mu/params/w", "batch_stats/mean")]
    ['parameter', 'parameter', 'optimizer state', 'model state']
    """
    for word in path.split("/"):
        if _is_called(word, _OPTIMIZER_NAMES):
            return Role.OPTIMIZER_STATE
        if _is_called(word, PARAMETER_NAMES):
            return Role.PARAMETER
    return Role.MODEL_STATE


def _is_called(word: str, names: Sequence[str]) -> bool:
    """Whether a word is one of these names, or ends in one: `critic_params`."""
    return any(word == name or word.endswith(f"_{name}") for name in names)


@dataclass(frozen=True, slots=True)
class _StepTracer:
    """The arguments of `trace_step`; makes its program."""

    title: str
    step: Callable[..., Any]
    trees: list[StepArgument]
    dims: Dims
    init: Callable[[Any], Any] | None
    data: Callable[[int], Any] | None
    stated: Stated
    reference: Reference | None

    def program(self, remat: Remat, precision: Precision, offload: Offload) -> Program:
        _verify_as_written(self.title, remat, precision, offload)
        result = guard_tracing(lambda: jax.eval_shape(partial(self.step), *(each.tree() for each in self.trees)), self.title)
        found = self._find_carried(result)
        paths = [path for each in self.trees for path in each.paths]
        specs = [spec for each in self.trees for spec in each.specs]
        roles = _roles_of(self.trees, found)
        pairs = tuple(sorted(pair for i, part in found.items() for pair in zip(part.leaves, self.trees[i].leaves, strict=True)))
        becomes, outputs = dict(pairs), _output_paths(result, found)
        results = [(paths[becomes[i]], roles[becomes[i]]) if i in becomes else (outputs[i], Role.OUTPUT) for i in range(_count(result))]
        loss = _find_loss(outputs, jax.tree.leaves(result))
        step = self._make_step(specs, roles, loss)
        return build_program(self.title, step, paths, specs, roles, results, pairs, self.dims, self.reference)

    def _find_carried(self, result: Any) -> dict[int, ResultPart]:
        """The result that each carried argument becomes. Raises `TraceError` if there is none."""
        if self.stated is not None:
            found = stated_carried(self.trees, result, self.stated, self.title)
        else:
            reads = ResultReads(self.step, [each.tree() for each in self.trees])
            found = find_carried(self.trees, result, reads, self.title)
        if not any(part.leaves for part in found.values()):
            raise _nothing_carried(self.trees, result, self.title, is_stated=self.stated is not None)
        return found

    def _make_step(self, specs: list[Any], roles: list[Role], loss: int | None) -> Step:
        structure = jax.tree.structure(tuple(each.tree() for each in self.trees))
        step, init, data = self.step, self.init, self.data
        paths = [path for each in self.trees for path in each.paths]
        fed = [path for path, role in zip(paths, roles, strict=True) if role is Role.INPUT]

        def call(*leaves: Any) -> tuple[Any, ...]:
            return tuple(jax.tree.leaves(step(*jax.tree.unflatten(structure, leaves))))

        sources = sources_of([leaf for each in self.trees for leaf in each.examples], specs, roles)
        if init is not None:
            state = [path for path, role in zip(paths, roles, strict=True) if role is not Role.INPUT]
            sources |= {"initialize": lambda key, _given: init_leaves(init(key), state), "given_indices": (), "given": ()}
        if data is not None:
            sources["feed"] = lambda number: tuple(host_array(leaf) for leaf in fed_leaves(data, number, fed))
        return Step(call, **sources, loss=loss)


def _verify_as_written(name: str, remat: Remat, precision: Precision, offload: Offload) -> None:
    """Raises the error of what a plan would change in a step that says it itself."""
    instead = "trace its loss, `wb.trace_training(loss, params, batch, optimizer=...)`"
    if remat != AS_TRACED:
        raise RematError(
            f"`{name}` is a step of its own: what its backward pass keeps is written in it.", ["use `jax.checkpoint` in it", instead]
        )
    if precision != AS_WRITTEN:
        raise PrecisionError(f"`{name}` is a step of its own: the types it computes in are written in it.", ["cast in it", instead])
    if offload != ALL_ON_DEVICE:
        raise OffloadError(f"`{name}` is a step of its own: where its state is kept is written in it.", ["leave `offload` out", instead])


def _nothing_carried(trees: Sequence[StepArgument], result: Any, name: str, *, is_stated: bool) -> TraceError:
    """The error of a step whose first result does not replace its first argument, nor any other one."""
    if is_stated:
        return TraceError(
            f"`carried` says that `{name}` carries nothing from step to step.", ["trace a function without state by `wb.trace`"]
        )
    parts = _parts_of(result)
    said = first_difference(trees[0], parts[0].tree, trees[0].root) if trees and parts else ""
    return TraceError(
        f"The first thing that `{name}` returns is not like the first it takes, so that nothing is carried from step to step"
        + (f": {said}." if said else "."),
        ["return the new state first, `return state, metrics`", "trace a function without state by `wb.trace`"],
    )


def _roles_of(trees: Sequence[StepArgument], carried: Mapping[int, ResultPart]) -> list[Role]:
    """The role of each argument leaf. Where no name says which are the parameters, all floating-point numbers that are carried are."""
    roles = [_roles_of_one(each, is_carried=i in carried) for i, each in enumerate(trees)]
    if not any(Role.PARAMETER in each for each in roles):
        for i in carried:
            floats = [jax.dtypes.issubdtype(spec.dtype, jax.numpy.floating) for spec in trees[i].specs]
            pairs = zip(roles[i], floats, strict=True)
            roles[i] = [Role.PARAMETER if role is Role.MODEL_STATE and is_float else role for role, is_float in pairs]
    return [role for each in roles for role in each]


def _roles_of_one(tree: StepArgument, *, is_carried: bool) -> list[Role]:
    """An argument called `params` that is only read, as in inference, holds parameters."""
    if is_carried:
        return [role_of(path) for path in tree.paths]
    return [Role.PARAMETER if tree.name in _READ_PARAMETER_NAMES else Role.INPUT] * len(tree.paths)


def _parts_of(result: Any) -> list[ResultPart]:
    """The results one by one, if the step returns a tuple of them."""
    whole = ResultPart((), result)
    return list(whole.children()) if type(result) is tuple else [whole]


def _count(result: Any) -> int:
    return len(jax.tree.leaves(result))


def _output_paths(result: Any, carried: Mapping[int, ResultPart]) -> dict[int, str]:
    """The paths of the leaves that are not carried, by index: `result`, or `result/0`, `result/1` if several results are left."""
    taken = {leaf for part in carried.values() for leaf in part.leaves}
    whole = {part.path for part in carried.values()}
    left = [part for part in _parts_of(result) if part.path not in whole and not (part.leaves and taken.issuperset(part.leaves))]
    roots = ["result"] if len(left) == 1 else [f"result/{i}" for i in range(len(left))]
    named = [
        pair for root, part in zip(roots, left, strict=True) for pair in zip(part.leaves, named_leaves(root, part.tree)[0], strict=True)
    ]
    return {leaf: path for leaf, path in named if leaf not in taken}


def _find_loss(paths: Mapping[int, str], shapes: Sequence[Any]) -> int | None:
    """Which of the outputs is the loss that a run shows."""
    scalars = [i for i in paths if shapes[i].shape == () and jax.dtypes.issubdtype(shapes[i].dtype, jax.numpy.floating)]
    called_so = [i for i in scalars if _is_called(paths[i].rpartition("/")[2], ("loss",))]
    return next(iter([*called_so, *scalars]), None)
