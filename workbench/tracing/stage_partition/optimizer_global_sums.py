"""Finds the operations of an optimizer that are not elementwise, and those of them that stages can share.

Most optimizers are elementwise, and each stage runs them on its own parameters. Clipping by the global norm (Pascanu et
al. 2012) also sums over the elements of all gradients: each stage computes its own terms, receives the total, and
continues. Any other mixing of elements is refused.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core

from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.errors import PipelineError
from workbench.tracing.jaxpr.equations import inline, variables
from workbench.tracing.model_state import cast, trained_tree

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
            f"The optimiser of {self.name} does not treat each element for itself: it takes {eqn.primitive.name} of {first}{when}. "
            "Stages, which each hold a part of the parameters, cannot do that alone.",
            ["use an optimiser such as adam, adamw or sgd", "clip by the global norm (`optax.clip_by_global_norm`), or each element"],
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
        f"The optimiser of {found.name} does not treat each element for itself: it takes {len(found.sums)} sums, each over the elements of "
        "some of the parameters. Stages, which may hold some layers of a parameter each, add up a norm of all of them and none of one.",
        ["use an optimiser such as adam, adamw or sgd", "clip by the global norm (`optax.clip_by_global_norm`), or each element"],
    )


def verify_separable(program: Program) -> None:
    """Raise `PipelineError` for an optimizer that is not elementwise."""
    if common_sums(program).sums:
        raise PipelineError(
            f"The optimiser of {program.name} does not treat each element for itself: it takes a norm of all parameters together, and a "
            "part of them alone does not know the others'.",
            ["use an optimiser such as adam, adamw or sgd", "clip each element (`optax.clip`), not their common norm"],
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
