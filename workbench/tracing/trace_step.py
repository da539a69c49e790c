"""A train step of one's own: what it takes and returns again is carried from step to step, whatever it computes between."""

from collections.abc import Callable, Sequence
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
from workbench.tracing.leaves import Leaves, named_leaves
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
    name_of,
    sources_of,
    verify_callable,
)

_OPTIMIZER_NAMES = ("opt_state", "opt_states", "optimizer_state", "optimizer", "opt")


def trace_step(
    step: Callable[..., Any],
    *args: Any,
    dims: Dims = None,
    name: str | None = None,
    init: Callable[[Any], Any] | None = None,
    data: Callable[[int], Any] | None = None,
    reference: Reference | None = None,
) -> Program:
    """The program of a train step as one writes it: `step(state, batch) -> (state, metrics)`, `step(params, opt_state, batch) -> (params,
    opt_state, loss)`, with as many models and optimisers as there are.

    **Arguments:** `args` are pytrees of arrays or `jax.ShapeDtypeStruct`s. The first results that are like the first arguments, leaf by
    leaf, are what these become in the next step. A leaf below a name such as `params` is a parameter, one below `opt_state` is the
    optimiser's, any other that is carried is the model's state. For a live run, `init(key)` makes what is carried (several arguments: a
    tuple) where only shapes were given, and `data(step)` the other arguments. The loss is the first result called so, or else the first
    floating-point number.

    Raises `TraceError` if the step cannot be traced or carries nothing, `DimensionError` if names do not fit. A plan does not change its
    remat, precision or offload.

    >>> spec = jax.ShapeDtypeStruct((4,), "float32")
    >>> program = trace_step(lambda params, batch: (params - batch, (params * batch).sum()), spec, spec, name="step")
    >>> [f"{each.path}: {each.role}" for each in program.arguments], program.step.loss
    (['params: parameter', 'batch: input'], 1)
    """
    verify_callable("step", step, "a function of state and a batch", "write `trace_step(step, state, batch)`")
    title = name or name_of(step)
    trees = [_Argument.of(root, arg) for root, arg in zip(argument_names(step, len(args)), args, strict=True)]
    tracer = _StepTracer(title, step, trees, dims, init, data, reference)
    return Variants(tracer.program)(AS_TRACED, AS_WRITTEN, ALL_ON_DEVICE)


@dataclass(frozen=True, slots=True)
class _Argument(Leaves):
    """One argument of the step, called `root`."""

    root: str = ""

    @classmethod
    def of(cls, root: str, tree: Any) -> "_Argument":
        """What has parameters below a name (a `TrainState`) is not named after the argument: its paths are `params/...`."""
        found = Leaves.of(root, tree)
        words = [path.split("/") for path in found.paths]
        is_named = root not in PARAMETER_NAMES and any(word in PARAMETER_NAMES for each in words for word in each[1:])
        paths = ["/".join(each[1:]) for each in words] if is_named else found.paths
        return cls(paths, found.examples, found.specs, found.structure, "" if is_named else root)


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
    trees: list[_Argument]
    dims: Dims
    init: Callable[[Any], Any] | None
    data: Callable[[int], Any] | None
    reference: Reference | None

    def program(self, remat: Remat, precision: Precision, offload: Offload) -> Program:
        _verify_as_written(self.title, remat, precision, offload)
        result = guard_tracing(lambda: jax.eval_shape(partial(self.step), *(each.tree() for each in self.trees)), self.title)
        parts = list(result) if type(result) is tuple else [result]
        count = _count_carried(self.trees, parts, self.title)
        carried, others = self.trees[:count], self.trees[count:]
        paths = [path for each in self.trees for path in each.paths]
        specs = [spec for each in self.trees for spec in each.specs]
        roles = _roles_of([path for each in carried for path in each.paths], specs)
        ends = len(roles)
        outputs = _output_paths(parts[count:])
        loss = _find_loss(outputs, jax.tree.leaves(parts[count:]))
        roles += [Role.INPUT] * (len(paths) - ends)
        return build_program(
            self.title,
            self._make_step(others, specs, roles, None if loss is None else ends + loss),
            paths,
            specs,
            roles,
            [*zip(paths[:ends], roles[:ends], strict=True), *((path, Role.OUTPUT) for path in outputs)],
            tuple((i, i) for i in range(ends)),
            self.dims,
            self.reference,
        )

    def _make_step(self, others: list[_Argument], specs: list[Any], roles: list[Role], loss: int | None) -> Step:
        structure = jax.tree.structure(tuple(each.tree() for each in self.trees))
        step, init, data = self.step, self.init, self.data

        def call(*leaves: Any) -> tuple[Any, ...]:
            return tuple(jax.tree.leaves(step(*jax.tree.unflatten(structure, leaves))))

        sources = sources_of([leaf for each in self.trees for leaf in each.examples], specs, roles)
        if init is not None:
            sources |= {"initialize": lambda key, _given: tuple(jax.tree.leaves(init(key))), "given_indices": (), "given": ()}
        if data is not None:
            paths = [path for each in others for path in each.paths]
            sources["feed"] = lambda number: tuple(host_array(leaf) for leaf in fed_leaves(data, number, paths))
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


def _count_carried(trees: Sequence[_Argument], parts: Sequence[Any], name: str) -> int:
    """How many of the first results are like the first arguments; raises `TraceError` if not even the first one is."""
    differences = [first_difference(given, part, given.root) for given, part in zip(trees, parts, strict=False)]
    if differences and not differences[0]:
        return next((i for i, difference in enumerate(differences) if difference), len(differences))
    said = f": {differences[0]}" if differences else ""
    raise TraceError(
        f"The first thing that `{name}` returns is not like the first it takes, so that nothing is carried from step to step{said}.",
        ["return the new state first, `return state, metrics`", "trace a function without state by `wb.trace`"],
    )


def _roles_of(paths: Sequence[str], specs: Sequence[jax.ShapeDtypeStruct]) -> list[Role]:
    """The roles of what is carried. Where no name says which are the parameters, all floating-point numbers are."""
    roles = [role_of(path) for path in paths]
    if Role.PARAMETER in roles:
        return roles
    floats = [jax.dtypes.issubdtype(spec.dtype, jax.numpy.floating) for spec in specs[: len(paths)]]
    pairs = zip(roles, floats, strict=True)
    return [Role.PARAMETER if role is Role.MODEL_STATE and is_float else role for role, is_float in pairs]


def _output_paths(parts: Sequence[Any]) -> list[str]:
    """The paths of the leaves that are not carried."""
    roots = ["result"] if len(parts) == 1 else [f"result/{i}" for i in range(len(parts))]
    return [path for root, part in zip(roots, parts, strict=True) for path in named_leaves(root, part)[0]]


def _find_loss(paths: Sequence[str], shapes: Sequence[Any]) -> int | None:
    """Which of the outputs is the loss that a run shows."""
    scalars = [i for i, each in enumerate(shapes) if each.shape == () and jax.dtypes.issubdtype(each.dtype, jax.numpy.floating)]
    called_so = [i for i in scalars if _is_called(paths[i].rpartition("/")[2], ("loss",))]
    return next(iter([*called_so, *scalars]), None)
