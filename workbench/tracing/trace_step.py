"""Traces a user's own train step, whose state is carried from step to step."""

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
from workbench.tracing.mesh_context import bind_mesh
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
_READ_PARAMETER_NAMES = ("params", "parameters", "variables", "model")  # `weights` may be sample weights


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
    """The program of a user's own train step, `step(state, batch) -> (state, metrics)` or with any number of states.

    `step(params, opt_state, batch) -> (params, opt_state, loss)` may have several models and optimizers.

    **Arguments:** `args` are pytrees of arrays or `jax.ShapeDtypeStruct`s. An argument is carried to the next step by
    the result that has its pytree structure, keys, shapes and dtypes, wherever the step returns it; arguments of one
    structure are carried in order. A bare array is carried if its name is one of state (`opt_state`, `key`, `count`),
    if its new value is computed from it alone, or if it is the first argument and the first result.
    `carried={"params": 0, "scale": 1}` states the result of each carried argument instead, as a position or a path,
    `"state/params"`. The report lists what is carried.

    A leaf below a name such as `params` is a parameter, one below `opt_state` is optimizer state, other carried leaves
    are model state. For a live run, `init(key)` makes the carried arguments, and `params` that are only read (several
    arguments: a tuple), where only shapes were given, and `data(step)` the other arguments. The loss is the first
    result named `loss`, or else the first floating-point scalar.

    Raises `TraceError` if the step cannot be traced, carries nothing, or is ambiguous, `DimensionError` if names do not
    fit. A plan cannot change its remat, precision or offload.

    >>> spec = jax.ShapeDtypeStruct((4,), "float32")
    >>> program = trace_step(lambda params, batch: (params - batch, (params * batch).sum()), spec, spec, name="step")
    >>> [f"{each.path}: {each.role}" for each in program.arguments], program.step.loss
    (['params: parameter', 'batch: input'], 1)
    """
    verify_callable("step", step, "a function of state and a batch", "write `trace_step(step, state, batch)`")
    title = name or name_of(step)
    step = bind_mesh(step)
    trees = _step_arguments(argument_names(step, len(args)), args)
    tracer = _StepTracer(title, step, trees, dims, init, data, carried, reference)
    return Variants(tracer.program)(AS_TRACED, AS_WRITTEN, ALL_ON_DEVICE)


def _step_arguments(names: Sequence[str], args: Sequence[Any]) -> list[StepArgument]:
    arguments: list[StepArgument] = []
    for name, tree in zip(names, args, strict=True):
        arguments.append(_step_argument(name, tree, first=sum(len(argument.paths) for argument in arguments)))
    return arguments


def _step_argument(name: str, tree: Any, first: int) -> StepArgument:
    """One argument. If it has parameters below a name (a `TrainState`), paths omit the argument's name: `params/...`."""
    leaves = Leaves.of(name, tree)
    words = [path.split("/") for path in leaves.paths]
    has_params = name not in PARAMETER_NAMES and any(word in PARAMETER_NAMES for path_words in words for word in path_words[1:])
    paths = ["/".join(path_words[1:]) for path_words in words] if has_params else leaves.paths
    is_state = _is_called(name, (*PARAMETER_NAMES, *_OPTIMIZER_NAMES, *STATE_NAMES))
    return StepArgument(paths, leaves.examples, leaves.specs, leaves.structure, name, "" if has_params else name, first, is_state)


def role_of(path: str) -> Role:
    """The role of a carried leaf, by the first word of its path that implies one.

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
    """Return whether a word is one of these names, or ends in one: `critic_params`."""
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
        result = guard_tracing(lambda: jax.eval_shape(partial(self.step), *(tree.tree() for tree in self.trees)), self.title)
        carried = self._find_carried(result)
        paths = [path for tree in self.trees for path in tree.paths]
        specs = [spec for tree in self.trees for spec in tree.specs]
        roles = _roles_of(self.trees, carried)
        pairs = tuple(sorted(pair for i, part in carried.items() for pair in zip(part.leaves, self.trees[i].leaves, strict=True)))
        becomes, outputs = dict(pairs), _output_paths(result, carried)
        results = [(paths[becomes[i]], roles[becomes[i]]) if i in becomes else (outputs[i], Role.OUTPUT) for i in range(_count(result))]
        loss = _find_loss(outputs, jax.tree.leaves(result))
        step = self._make_step(specs, roles, loss)
        return build_program(self.title, step, paths, specs, roles, results, pairs, self.dims, self.reference)

    def _find_carried(self, result: Any) -> dict[int, ResultPart]:
        """The result that each carried argument becomes. Raises `TraceError` if there is none."""
        if self.stated is not None:
            carried = stated_carried(self.trees, result, self.stated, self.title)
        else:
            reads = ResultReads(self.step, [tree.tree() for tree in self.trees])
            carried = find_carried(self.trees, result, reads, self.title)
        if not any(part.leaves for part in carried.values()):
            raise _nothing_carried(self.trees, result, self.title, is_stated=self.stated is not None)
        return carried

    def _make_step(self, specs: list[Any], roles: list[Role], loss: int | None) -> Step:
        structure = jax.tree.structure(tuple(tree.tree() for tree in self.trees))
        step, init, data = self.step, self.init, self.data
        paths = [path for tree in self.trees for path in tree.paths]
        fed = [path for path, role in zip(paths, roles, strict=True) if role is Role.INPUT]

        def call(*leaves: Any) -> tuple[Any, ...]:
            return tuple(jax.tree.leaves(step(*jax.tree.unflatten(structure, leaves))))

        sources = sources_of([leaf for tree in self.trees for leaf in tree.examples], specs, roles)
        if init is not None:
            state = [path for path, role in zip(paths, roles, strict=True) if role is not Role.INPUT]
            sources |= {"initialize": lambda key, _given: init_leaves(init(key), state), "given_indices": (), "given": ()}
        if data is not None:
            sources["feed"] = lambda number: tuple(host_array(leaf) for leaf in fed_leaves(data, number, fed))
        return Step(call, **sources, loss=loss)


def _verify_as_written(name: str, remat: Remat, precision: Precision, offload: Offload) -> None:
    instead = "trace its loss, `wb.trace_training(loss, params, batch, optimizer=...)`"
    if remat != AS_TRACED:
        raise RematError(
            f"`{name}` is a custom step: the function fixes what its backward pass keeps.", ["use `jax.checkpoint` in it", instead]
        )
    if precision != AS_WRITTEN:
        raise PrecisionError(f"`{name}` is a custom step: the function fixes its compute types.", ["cast in it", instead])
    if offload != ALL_ON_DEVICE:
        raise OffloadError(f"`{name}` is a custom step: the function fixes where its state is kept.", ["leave `offload` out", instead])


def _nothing_carried(trees: Sequence[StepArgument], result: Any, name: str, *, is_stated: bool) -> TraceError:
    if is_stated:
        return TraceError(
            f"`carried` says that `{name}` carries nothing from step to step.", ["trace a function without state with `wb.trace`"]
        )
    parts = _parts_of(result)
    difference = first_difference(trees[0], parts[0].tree, trees[0].root) if trees and parts else ""
    return TraceError(
        f"The first result of `{name}` differs from its first argument, so nothing is carried from step to step"
        + (f": {difference}." if difference else "."),
        ["return the new state first, `return state, metrics`", "trace a function without state with `wb.trace`"],
    )


def _roles_of(trees: Sequence[StepArgument], carried: Mapping[int, ResultPart]) -> list[Role]:
    """The role of each argument leaf; if no name says which are parameters, all carried floating-point leaves are."""
    roles = [_roles_of_one(item, is_carried=i in carried) for i, item in enumerate(trees)]
    if not any(Role.PARAMETER in item for item in roles):
        for i in carried:
            floats = [jax.dtypes.issubdtype(spec.dtype, jax.numpy.floating) for spec in trees[i].specs]
            pairs = zip(roles[i], floats, strict=True)
            roles[i] = [Role.PARAMETER if role is Role.MODEL_STATE and is_float else role for role, is_float in pairs]
    return [role for item in roles for role in item]


def _roles_of_one(tree: StepArgument, *, is_carried: bool) -> list[Role]:
    """Roles of one argument's leaves; an argument `params` that is only read, as in inference, holds parameters."""
    if is_carried:
        return [role_of(path) for path in tree.paths]
    return [Role.PARAMETER if tree.name in _READ_PARAMETER_NAMES else Role.INPUT] * len(tree.paths)


def _parts_of(result: Any) -> list[ResultPart]:
    whole = ResultPart((), result)
    return list(whole.children()) if type(result) is tuple else [whole]


def _count(result: Any) -> int:
    return len(jax.tree.leaves(result))


def _output_paths(result: Any, carried: Mapping[int, ResultPart]) -> dict[int, str]:
    """The paths of the leaves that are not carried, by index: `result`, or `result/0`, `result/1` for several."""
    used = {leaf for part in carried.values() for leaf in part.leaves}
    whole = {part.path for part in carried.values()}
    rest = [part for part in _parts_of(result) if part.path not in whole and not (part.leaves and used.issuperset(part.leaves))]
    roots = ["result"] if len(rest) == 1 else [f"result/{i}" for i in range(len(rest))]
    pairs = [
        pair for root, part in zip(roots, rest, strict=True) for pair in zip(part.leaves, named_leaves(root, part.tree)[0], strict=True)
    ]
    return {leaf: path for leaf, path in pairs if leaf not in used}


def _find_loss(paths: Mapping[int, str], shapes: Sequence[Any]) -> int | None:
    scalars = [i for i in paths if shapes[i].shape == () and jax.dtypes.issubdtype(shapes[i].dtype, jax.numpy.floating)]
    named_loss = [i for i in scalars if _is_called(paths[i].rpartition("/")[2], ("loss",))]
    return next(iter([*named_loss, *scalars]), None)
