"""The end of a step by stage: each stage's gradients go through the optimizer into its own parameters.

An elementwise optimizer (SGD, Adam, AdamW, weight decay, schedules, one optimizer per group of parameters) runs on a
part of the parameters, with the other leaves removed from the tree. One that also sums over all of them (clipping by
norm) runs in two parts, with the stages' sums added in between. Others are refused.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.extend import core as jax_core
from jax.extend import core as jex_core

from workbench.core.path_patterns import find_parameter
from workbench.core.program import Program, Training
from workbench.core.tensor import Role
from workbench.errors import PipelineError
from workbench.tracing.grad_accumulation.micro_batch_marks import mean_gradient
from workbench.tracing.jaxpr.equations import closed_jaxpr, inline, select_needed, variables
from workbench.tracing.leaves import named_leaves
from workbench.tracing.model_state import cast, trained_tree
from workbench.tracing.stage_partition.partition_network import StagePartition

# Finds the operations of an optimizer that are not elementwise, and those of them that stages can share.
#
# Most optimizers are elementwise, and each stage runs them on its own parameters. Clipping by the global norm (Pascanu et
# al. 2012) also sums over the elements of all gradients: each stage computes its own terms, receives the total, and
# continues. Any other mixing of elements is refused.


_MIXING = (
    *("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "sort", "rev", "transpose", "dot_general", "scan", "while", "fft", "gather"),
    *("scatter", "scatter-add", "random_bits", "random_split", "random_fold_in", "random_wrap", "cholesky", "eigh", "qr", "svd"),
    *("triangular_solve", "dynamic_update_slice", "cond"),
)
"""Primitives that keep a shape but (may) mix elements, or number the leaves of a tree."""
_ADDING = ("add", "add_any")
_SAME = ("convert_element_type", "reshape", "squeeze", "copy")

Leaves = frozenset[int]
_NONE: Leaves = frozenset()
_NUMBERS: Leaves = frozenset((-1,))  # not a leaf: element indices, which would differ on a stage with some of the elements


@dataclass
class SharedSums:
    """The sums over parameters in an optimizer's update, with the leaves that each sums over.

    `leaves_of`: the leaf that each variable belongs to; `steps`: the primitives applied to the sums, with their
    constants. Raises `PipelineError` for any other operation that is not elementwise.
    """

    name: str
    leaves_of: dict[Any, Leaves]
    sums: dict[Any, Leaves] = field(default_factory=dict)
    steps: set[tuple[str, tuple[float, ...]]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._open_sums: dict[Any, Leaves] = {}  # sums that may get more terms
        self._derived: set[Any] = set()  # variables that depend on a sum

    def read(self, eqns: Iterable[Any], outvars: Sequence[Any]) -> "SharedSums":
        for eqn in eqns:
            self._read_equation(eqn)
        self._close_sums(outvars)
        return self

    def _read_equation(self, eqn: Any) -> None:
        if not eqn.outvars:  # a print or a check
            return
        (out, *more), ins = eqn.outvars, variables(eqn.invars)
        if not more and self._is_leaf_sum(eqn):
            if any(var in self._derived for var in ins):
                raise self._make_error(eqn, " after another such sum")
            self._open_sums[out] = self._leaves(ins)
        elif not more and self._is_addition(eqn):
            self._open_sums[out] = self._leaves(ins)
        else:
            self._close_sums(ins)
            is_mixed, leaves = _is_mixing(eqn), self._leaves(ins)
            reads = bool(leaves - _NUMBERS) or any(var in self.sums or var in self._derived for var in ins)
            if (is_mixed and reads) or len(leaves) > 1:
                raise self._make_error(eqn)
            if is_mixed or all(var.aval.size == 1 for var in eqn.outvars):
                leaves = _NUMBERS if any(var.aval.size > 1 for var in eqn.outvars) else leaves - _NUMBERS
            for var in eqn.outvars:
                self.leaves_of[var] = leaves
            if any(var in self.sums or var in self._derived for var in ins):
                self._derived.update(eqn.outvars)
                numbers = (float(atom.val) for atom in eqn.invars if isinstance(atom, jex_core.Literal))
                self.steps.add((eqn.primitive.name, tuple(numbers)))

    def _leaves(self, read: Iterable[Any]) -> Leaves:
        return frozenset().union(*(self._open_sums.get(var, self.leaves_of.get(var, _NONE)) for var in read))

    def _is_leaf_sum(self, eqn: Any) -> bool:
        if eqn.primitive.name != "reduce_sum":
            return False
        first = eqn.invars[0]
        whole = len(eqn.params["axes"]) == len(first.aval.shape)
        return whole and not isinstance(first, jex_core.Literal) and bool(self.leaves_of.get(first, _NONE) - _NUMBERS)

    def _is_addition(self, eqn: Any) -> bool:
        """Return whether an equation adds sums or passes one on; a leaf of a single element is its own sum."""
        ins, name = variables(eqn.invars), eqn.primitive.name
        if not any(var in self._open_sums for var in ins) or any(var.aval.size > 1 for var in ins):
            return name in _ADDING and self._is_scalar_addition(ins)
        literals = [atom for atom in eqn.invars if isinstance(atom, jex_core.Literal)]
        if name in _ADDING:
            return all(var in self._open_sums or self.leaves_of.get(var) for var in ins) and not any(
                float(literal.val) for literal in literals
            )
        return name in _SAME or (name == "reduce_sum" and not eqn.params["axes"])

    def _is_scalar_addition(self, ins: Sequence[Any]) -> bool:
        """Return whether it adds single-element leaves of several parameters."""
        return all(var.aval.size == 1 and self.leaves_of.get(var) for var in ins) and len(self._leaves(ins)) > 1

    def _close_sums(self, read: Iterable[Any]) -> None:
        """Close sums that are read other than by additions: they have all their terms."""
        for var in variables(read):
            if var in self._open_sums:
                self.sums[var] = self._open_sums.pop(var)

    def _make_error(self, eqn: Any, when: str = "") -> PipelineError:
        first = (*eqn.invars, *eqn.outvars)[0].aval.str_short()
        return PipelineError(
            f"The optimizer of {self.name} does not treat each element for itself: it takes {eqn.primitive.name} of {first}{when}. "
            "Stages, which each hold a part of the parameters, cannot do that alone.",
            ["use an optimizer such as adam, adamw or sgd", "clip by the global norm (`optax.clip_by_global_norm`), or each element"],
        )


def _is_mixing(eqn: Any) -> bool:
    if eqn.primitive.name in (*_MIXING, "iota"):
        return True
    large = [atom.aval.shape for atom in variables(eqn.invars) if atom.aval.size > 1]
    return bool(large) and any(out.aval.shape not in large for out in eqn.outvars)


def verify_common(found: SharedSums, leaves: Leaves) -> None:
    """Raise `PipelineError` unless there is only one sum, or every sum is over all parameters."""
    leaf_sets = set(found.sums.values())
    if not leaf_sets or leaf_sets == {leaves} or len(found.sums) == 1:
        return
    raise PipelineError(
        f"The optimizer of {found.name} does not treat each element for itself: it takes {len(found.sums)} sums, each over the elements of "
        "some of the parameters. Stages, which may hold some layers of a parameter each, add up a norm of all of them and none of one.",
        ["use an optimizer such as adam, adamw or sgd", "clip by the global norm (`optax.clip_by_global_norm`), or each element"],
    )


def verify_separable(program: Program) -> None:
    """Raise `PipelineError` for an optimizer that is not elementwise."""
    if common_sums(program).sums:
        raise PipelineError(
            f"The optimizer of {program.name} does not treat each element for itself: it takes a norm of all parameters together, and a "
            "part of them alone does not know the others'.",
            ["use an optimizer such as adam, adamw or sgd", "clip each element (`optax.clip`), not their common norm"],
        )


def common_sums(program: Program) -> SharedSums:
    """The sums over all parameters in an optimizer's update; raises `PipelineError` for any other mixing."""
    training = program.step.training
    assert training is not None, "asked of training steps"
    params = [item for item in program.arguments if item.role is Role.PARAMETER]
    tree = trained_tree(training.params, [jax.ShapeDtypeStruct(item.shape, item.dtype) for item in params], training.frozen)
    tree = cast(tree, training.moments)
    specs = jax.tree.leaves(tree)
    state = jax.eval_shape(training.optimizer.init, tree)
    closed = jax.make_jaxpr(training.optimizer.update)(tree, state, tree)
    count, width = len(specs), len(jax.tree.leaves(state))
    invars = closed.jaxpr.invars
    eqns, _, outvars = inline(closed)
    leaves_of = {var: frozenset((i % (count + width),)) for i, var in enumerate(invars) if i < count or i >= count + width}
    sums = SharedSums(program.name, leaves_of).read(eqns, outvars)
    verify_common(sums, frozenset(i for i, item in enumerate(specs) if jnp.issubdtype(item.dtype, jnp.inexact)))
    return sums


# The update of a stage.


@dataclass(frozen=True)
class StageUpdate:
    """The optimizer's update of one stage.

    - `owned`: numbers of the parameter slices that this stage updates; a shared one belongs to its first stage;
    - `state`: for each leaf of the stage's optimizer state its number among the program's arguments, and its layer if
      it is stacked;
    - `call(param_slices, state, gradients, total) -> (param_slices, state)`: gradients are sums over micro-batches,
      with the specs `accumulators`; `total` is the sum of the micro-batches' weights;
    - `sums`: the number of sums over all parameters it needs (`common_sums`). Then `terms(param_slices,
      state, gradients, total)` are the stage's terms of each, and `finish(param_slices, state, gradients, total, sums)`
      is the update with the total sums; `call` uses its own terms alone.
    """

    owned: tuple[int, ...]
    state: tuple[tuple[int, int | None], ...]
    call: Callable[[Sequence[Any], Sequence[Any], Sequence[Any], Any], tuple[list[Any], list[Any]]]
    accumulators: tuple[jax.ShapeDtypeStruct, ...] = ()
    sums: int = 0
    terms: Callable[..., list[Any]] = lambda *_: []
    finish: Callable[..., tuple[list[Any], list[Any]]] | None = None


def owners(partition: StagePartition) -> tuple[int, ...]:
    """The stage that updates each parameter slice: the first that uses it, or stage 0 if none does."""
    first: dict[int, int] = {}
    for virtual_stage in partition.virtual_stages:
        for param_slice in virtual_stage.param_slices:
            first.setdefault(param_slice, virtual_stage.number)
    return tuple(first.get(param_slice, 0) for param_slice in range(len(partition.network.flat.param_slices)))


def stage_update(program: Program, partition: StagePartition, stage: int, whole: SharedSums | None = None) -> StageUpdate:
    """The update of one stage; `whole` has the optimizer's sums over all parameters, if any (`common_sums`)."""
    training = program.step.training
    assert training is not None, "only training steps are partitioned"
    flat = partition.network.flat
    owned = tuple(i for i, owner in enumerate(owners(partition)) if owner == stage and flat.param_slices[i][0].leaf not in training.frozen)
    specs = [jax.ShapeDtypeStruct(flat.param_slices[i][1].aval.shape, flat.param_slices[i][1].aval.dtype) for i in owned]
    state_specs = jax.eval_shape(
        lambda values: training.optimizer.init(cast(_owned_tree(training, partition, owned, values), training.moments)), specs
    )
    places, structure = _locate_state(program, partition, owned, state_specs), jax.tree.structure(state_specs)

    def call(param_slices: Sequence[Any], state: Sequence[Any], gradients: Sequence[Any], total: Any) -> tuple[list[Any], list[Any]]:
        mean = [
            mean_gradient(item, param_slice.dtype, total, partition.network.micro_batches, is_average=i in flat.averages)
            for item, param_slice, i in zip(gradients, param_slices, owned, strict=True)
        ]
        weights, gradient = (_owned_tree(training, partition, owned, item) for item in (param_slices, mean))
        moments = jax.tree.unflatten(structure, state)
        with jax.named_scope("optimizer"):
            updates, moments = training.optimizer.update(cast(gradient, training.moments), moments, cast(weights, training.moments))
            weights = optax.apply_updates(weights, updates)
        return jax.tree.leaves(weights), jax.tree.leaves(moments)

    update = StageUpdate(owned, places, call, tuple(accumulator(item, training.sums) for item in specs))
    return _split_update(update, specs, jax.tree.leaves(state_specs), whole) if whole and whole.sums and owned else update


def _split_update(update: StageUpdate, specs: Sequence[Any], state: Sequence[Any], whole: SharedSums) -> StageUpdate:
    """The update split at its sums over all parameters. A stage without any of the summed parameters has no terms."""
    count, width = len(specs), len(state)
    total = jax.ShapeDtypeStruct((), jnp.float32)

    def flat(*values: Any) -> Any:
        return update.call(values[:count], values[count : count + width], values[count + width : -1], values[-1])

    closed = jax.make_jaxpr(flat)(*specs, *state, *update.accumulators, total)
    eqns, constants, outvars = inline(closed)
    invars = closed.jaxpr.invars
    leaves_of = {var: frozenset((i % (count + width),)) for i, var in enumerate(invars[:-1]) if i < count or i >= count + width}
    stage_sums = SharedSums(whole.name, leaves_of).read(eqns, outvars)
    summed = list(stage_sums.sums)
    if summed and (len(summed) != len(whole.sums) or not stage_sums.steps >= whole.steps):
        raise PipelineError(
            f"The optimizer of {whole.name} does other things with the sums over a stage's parameters than with those over all: it treats "
            "layers apart that are stacked in the whole, or counts what it sums over.",
            ["use an optimizer such as adam, adamw or sgd", "clip by the global norm (`optax.clip_by_global_norm`), or each element"],
        )
    first = closed_jaxpr(closed.jaxpr, constants, invars, select_needed(eqns, summed), summed)
    second = closed_jaxpr(closed.jaxpr, constants, [*invars, *summed], _select_after(eqns, summed, outvars), outvars)

    def terms(param_slices: Sequence[Any], moments: Sequence[Any], gradients: Sequence[Any], total: Any) -> list[Any]:
        return list(jax_core.jaxpr_as_fun(first)(*param_slices, *moments, *gradients, jnp.asarray(total, jnp.float32)))

    def finish(
        param_slices: Sequence[Any], moments: Sequence[Any], gradients: Sequence[Any], total: Any, given: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        sums = [value.astype(var.aval.dtype) for value, var in zip(given, summed, strict=False)]
        results = jax_core.jaxpr_as_fun(second)(*param_slices, *moments, *gradients, jnp.asarray(total, jnp.float32), *sums)
        return list(results[:count]), list(results[count:])

    return replace(update, sums=len(summed), terms=terms, finish=finish)


def _select_after(eqns: Sequence[Any], given: Sequence[Any], outvars: Sequence[Any]) -> list[Any]:
    return select_needed([eqn for eqn in eqns if not any(var in given for var in eqn.outvars)], outvars)


def _owned_tree(training: Training, partition: StagePartition, owned: Sequence[int], values: Sequence[Any]) -> Any:
    """The parameters' pytree without other stages' leaves; a stacked leaf is a tuple of its owned slices."""
    leaves: list[Any] = [None] * training.params.num_leaves
    for param_slice, value in zip(owned, values, strict=True):
        leaf, layer = partition.network.flat.param_slices[param_slice][0]
        leaves[leaf] = value if layer is None else (*(leaves[leaf] or ()), value)
    return jax.tree.unflatten(training.params, leaves)


def _locate_state(program: Program, partition: StagePartition, owned: Sequence[int], state: Any) -> tuple[tuple[int, int | None], ...]:
    """The program argument of each leaf of a stage's optimizer state; a slice's path ends in its tuple index."""
    argument_of = {tensor.path: i for i, tensor in enumerate(program.arguments) if tensor.role is Role.OPTIMIZER_STATE}
    layers: dict[str, list[int]] = {}
    for param_slice in owned:
        leaf, layer = partition.network.flat.param_slices[param_slice][0]
        if layer is not None:
            layers.setdefault(partition.network.parameter_paths[leaf].partition("/")[2], []).append(layer)
    places: list[tuple[int, int | None]] = []
    for path in named_leaves("opt_state", state)[0]:
        stacked, _, number = path.rpartition("/")
        if path in argument_of:
            places.append((argument_of[path], None))
        else:
            leaf_path = find_parameter(stacked, layers)
            assert leaf_path is not None, "a slice needs a parameter of this stage"
            places.append((argument_of[stacked], layers[leaf_path][int(number)]))
    return tuple(places)


def accumulator(spec: jax.ShapeDtypeStruct, sums: str | None) -> jax.ShapeDtypeStruct:
    """Shape and type of the accumulator for a parameter's gradients; `sums` as in `Training`."""
    return jax.ShapeDtypeStruct(spec.shape, accumulator_type(spec.dtype, sums))


def accumulator_type(dtype: Any, sums: str | None) -> Any:
    """
    >>> str(accumulator_type("bfloat16", None)), str(accumulator_type("float64", None)), str(accumulator_type("bfloat16", "bfloat16"))
    ('float32', 'float64', 'bfloat16')
    """
    return jnp.promote_types(dtype, sums or jnp.float32)
