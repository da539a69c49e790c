"""What an optimiser does that is not elementwise, and which of that stages can do together.

Most optimisers are elementwise, and each stage runs them on its own parameters. Clipping by the global norm (Pascanu et al. 2012) also
takes one sum over the elements of all gradients. It is a sum of the stages' sums: each stage adds up its own terms, all receive the total,
and go on. Any other mixing of elements is refused.
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
from workbench.tracing.model_state import cast

_MIXING = (
    *("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "sort", "rev", "transpose", "dot_general", "scan", "while", "fft", "gather"),
    *("scatter", "scatter-add", "random_bits", "random_split", "random_fold_in", "random_wrap", "cholesky", "eigh", "qr", "svd"),
    *("triangular_solve", "dynamic_update_slice", "cond"),
)
"""Primitives that keep a shape and yet mix elements, or may, or number the leaves of a tree."""
_ADDING = ("add", "add_any")
_SAME = ("convert_element_type", "reshape", "squeeze", "copy")

Leaves = frozenset[int]
_NONE: Leaves = frozenset()
_NUMBERS: Leaves = frozenset((-1,))  # no leaf: elements numbered, which a stage that has some of them would number otherwise


@dataclass
class SharedSums:
    """The sums over parameters in the equations of an optimiser's step: the variables that hold them, and the leaves that each is over.

    `leaves_of` says which leaf each variable is an element of; `steps` is what is done with the sums: primitives, with their constants.
    Raises `PipelineError` for anything else that is not elementwise.
    """

    name: str
    leaves_of: dict[Any, Leaves]
    sums: dict[Any, Leaves] = field(default_factory=dict)
    steps: set[tuple[str, tuple[float, ...]]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._open_sums: dict[Any, Leaves] = {}  # sums that may still grow
        self._derived: set[Any] = set()  # what follows from a sum

    def read(self, eqns: Iterable[Any], outvars: Sequence[Any]) -> "SharedSums":
        for eqn in eqns:
            self._read_equation(eqn)
        self._close_sums(outvars)
        return self

    def _read_equation(self, eqn: Any) -> None:
        if not eqn.outvars:  # it prints, or checks
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
                numbers = (float(each.val) for each in eqn.invars if isinstance(each, jex_core.Literal))
                self.steps.add((eqn.primitive.name, tuple(numbers)))

    def _leaves(self, read: Iterable[Any]) -> Leaves:
        return frozenset().union(*(self._open_sums.get(var, self.leaves_of.get(var, _NONE)) for var in read))

    def _is_leaf_sum(self, eqn: Any) -> bool:
        """Whether an equation sums all elements of one leaf."""
        if eqn.primitive.name != "reduce_sum":
            return False
        first = eqn.invars[0]
        whole = len(eqn.params["axes"]) == len(first.aval.shape)
        return whole and not isinstance(first, jex_core.Literal) and bool(self.leaves_of.get(first, _NONE) - _NUMBERS)

    def _is_addition(self, eqn: Any) -> bool:
        """Whether an equation adds sums, to one another or to nothing; a leaf of a single element is its own sum."""
        ins, name = variables(eqn.invars), eqn.primitive.name
        if not any(var in self._open_sums for var in ins) or any(var.aval.size > 1 for var in ins):
            return name in _ADDING and self._is_scalar_addition(ins)
        literals = [atom for atom in eqn.invars if isinstance(atom, jex_core.Literal)]
        if name in _ADDING:
            return all(var in self._open_sums or self.leaves_of.get(var) for var in ins) and not any(float(each.val) for each in literals)
        return name in _SAME or (name == "reduce_sum" and not eqn.params["axes"])

    def _is_scalar_addition(self, ins: Sequence[Any]) -> bool:
        """Whether it adds leaves of a single element each, of several parameters."""
        return all(var.aval.size == 1 and self.leaves_of.get(var) for var in ins) and len(self._leaves(ins)) > 1

    def _close_sums(self, read: Iterable[Any]) -> None:
        """Close the sums that are read otherwise than by adding to them: they have all their terms."""
        for var in variables(read):
            if var in self._open_sums:
                self.sums[var] = self._open_sums.pop(var)

    def _make_error(self, eqn: Any, when: str = "") -> PipelineError:
        first = (*eqn.invars, *eqn.outvars)[0].aval.str_short()
        return PipelineError(
            f"The optimiser of {self.name} does not treat each element for itself: it takes {eqn.primitive.name} of {first}{when}. "
            "Stages, which each hold a part of the parameters, cannot do that alone.",
            ["take an optimiser such as adam, adamw or sgd", "clip by the global norm (`optax.clip_by_global_norm`), or each element"],
        )


def _is_mixing(eqn: Any) -> bool:
    if eqn.primitive.name in (*_MIXING, "iota"):
        return True
    large = [atom.aval.shape for atom in variables(eqn.invars) if atom.aval.size > 1]
    return bool(large) and any(out.aval.shape not in large for out in eqn.outvars)


def verify_common(found: SharedSums, leaves: Leaves) -> None:
    """Raises `PipelineError` unless the sums can be taken over all parameters together: all of them, or one sum over some."""
    over = set(found.sums.values())
    if not over or over == {leaves} or len(found.sums) == 1:
        return
    raise PipelineError(
        f"The optimiser of {found.name} does not treat each element for itself: it takes {len(found.sums)} sums, each over the elements of "
        "some of the parameters. Stages, which may hold some layers of a parameter each, add up a norm of all of them and none of one.",
        ["take an optimiser such as adam, adamw or sgd", "clip by the global norm (`optax.clip_by_global_norm`), or each element"],
    )


def verify_separable(program: Program) -> None:
    """Raises `PipelineError` for an optimiser that is not elementwise."""
    if common_sums(program).sums:
        raise PipelineError(
            f"The optimiser of {program.name} does not treat each element for itself: it takes a norm of all parameters together, and a "
            "part of them alone does not know the others'.",
            ["take an optimiser such as adam, adamw or sgd", "clip each element (`optax.clip`), not their common norm"],
        )


def common_sums(program: Program) -> SharedSums:
    """The sums over all parameters that the optimiser takes, and that stages can add up (`optimizer_global_sums`).

    Raises `PipelineError` for one that mixes elements in any other way.
    """
    training = program.step.training
    assert training is not None, "asked of training steps"
    params = [each for each in program.arguments if each.role is Role.PARAMETER]
    specs = cast([jax.ShapeDtypeStruct(each.shape, each.dtype) for each in params], training.moments)
    tree = jax.tree.unflatten(training.params, specs)
    state = jax.eval_shape(training.optimizer.init, tree)
    closed = jax.make_jaxpr(training.optimizer.update)(tree, state, tree)
    count, width = len(specs), len(jax.tree.leaves(state))
    invars = closed.jaxpr.invars
    eqns, _, outvars = inline(closed)
    of = {var: frozenset((i % (count + width),)) for i, var in enumerate(invars) if i < count or i >= count + width}
    found = SharedSums(program.name, of).read(eqns, outvars)
    verify_common(found, frozenset(i for i, each in enumerate(specs) if jnp.issubdtype(each.dtype, jnp.inexact)))
    return found
