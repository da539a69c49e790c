"""Remat `dots_every:N`: which results of a layer are kept, as names in its jaxpr.

Of the products without batch dimensions (of weights), in the order of the layer, the first is kept, then every N-th after it; with N = 2
every other one, as torchtitan's selective activation checkpointing counts `mm` (`activation_checkpoint.py`, `_apply_op_sac`). A function
with a derivative of its own (`jax.custom_vjp`) that multiplies counts as one product. Kept besides, as there: what attention computes,
where it is a hand-written kernel or has a derivative of its own, and sums and exchanges between devices in a `shard_map`, which would be
sent again. Counting is done once, on the jaxpr, so that the policy itself has no state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.extend.core import primitives

from workbench.propagation.module.source_location import marked_kernel
from workbench.tracing.jaxpr.equations import CALLS, equations_inside, rewrite_inside, substituted, variables

KEPT_RESULT = "kept result"
"""The name of what is kept; with its space it is none that a remat text can use."""
_HOLDERS = (*CALLS, "scan", "cond", "shard_map")  # whose insides JAX's policies see
_OWN_DERIVATIVE = ("custom_vjp_call", "custom_jvp_call")
_KEPT_PRIMITIVES = ("pallas_call", "ffi_call", "psum", "psum_invariant", "reduce_scatter", "all_to_all")


def keep_marked(named: Callable[..., Any]) -> Callable[..., Any]:
    """The checkpoint policy `named`, which says what is kept by name, that keeps hand-written kernels and what devices have sent, too."""

    def policy(primitive: Any, *operands: Any, **params: Any) -> Any:
        return primitive.name in _KEPT_PRIMITIVES or named(primitive, *operands, **params)

    return policy


def keep_every_dot(fn: Callable[..., Any], every: int) -> Callable[..., Any]:
    """`jax.checkpoint` of `fn`, a function of pytrees of arrays, that keeps what `dots_every` says."""
    policy = keep_marked(jax.checkpoint_policies.save_only_these_names(KEPT_RESULT))

    def call(*args: Any) -> Any:
        closed, shape = jax.make_jaxpr(fn, return_shape=True)(*args)
        marked = jex_core.ClosedJaxpr(mark_kept_dots(closed.jaxpr, every), closed.consts)
        run = jax.checkpoint(jex_core.jaxpr_as_fun(marked), policy=policy)
        return jax.tree.unflatten(jax.tree.structure(shape), run(*jax.tree.leaves(args)))

    return call


def mark_kept_dots(jaxpr: Any, every: int) -> Any:
    """A layer's jaxpr, in which what is kept is named `KEPT_RESULT`."""
    return _Marker(every).mark(jaxpr)


@dataclass(slots=True)
class _Marker:
    """A walk through one layer; `counted` products are behind it."""

    every: int
    counted: int = 0

    def mark(self, jaxpr: Any) -> Any:
        leaving = _leaving_kernels(jaxpr)
        renamed: dict[Any, Any] = {}
        eqns: list[Any] = []
        for each in jaxpr.eqns:
            eqn = each.replace(invars=substituted(each.invars, renamed))
            if eqn.primitive.name in _HOLDERS and not _kernel_of(eqn):
                eqn = rewrite_inside(eqn, self.mark)
            eqns.append(eqn)
            for var in self._kept_results(eqn, leaving):
                renamed[var] = jex_core.Var(var.aval)
                eqns.append(_name(eqn, var, renamed[var]))
        return jaxpr.replace(eqns=eqns, outvars=substituted(jaxpr.outvars, renamed))

    def _kept_results(self, eqn: Any, leaving: set[Any]) -> list[Any]:
        if _kernel_of(eqn):
            return [var for var in eqn.outvars if var in leaving]
        if not _is_counted(eqn):
            return list(eqn.outvars) if eqn.primitive.name in _OWN_DERIVATIVE and _multiplies(eqn) else []
        self.counted += 1
        return list(eqn.outvars) if (self.counted - 1) % self.every == 0 else []


def _name(eqn: Any, var: Any, named: Any) -> Any:
    """The equation that names a result of `eqn`."""
    return jex_core.new_jaxpr_eqn([var], [named], primitives.name_p, {"name": KEPT_RESULT}, set(), eqn.source_info, eqn.ctx)


def _kernel_of(eqn: Any) -> str:
    """The scope of the hand-written kernel that an equation is in, up to its mark; empty outside all kernels."""
    stack = str(eqn.source_info.name_stack)
    return stack.partition("@kernel")[0] if marked_kernel(stack) else ""


def _leaving_kernels(jaxpr: Any) -> set[Any]:
    """What hand-written kernels with products make and others read."""
    kernels = {kernel for eqn in jaxpr.eqns if (kernel := _kernel_of(eqn)) and _multiplies(eqn)}
    made = {var: _kernel_of(eqn) for eqn in jaxpr.eqns if _kernel_of(eqn) in kernels for var in eqn.outvars}
    read = {var for eqn in jaxpr.eqns for var in variables(eqn.invars) if made.get(var) not in (None, _kernel_of(eqn))}
    return read | {var for var in variables(jaxpr.outvars) if var in made}


def _is_counted(eqn: Any) -> bool:
    """Whether an equation is a product of weights, or a function with its own derivative that computes one."""
    inside = equations_inside(eqn) if eqn.primitive.name in _OWN_DERIVATIVE else (eqn,)
    return any(_is_plain_dot(each) or each.primitive.name == "conv_general_dilated" for each in inside)


def _is_plain_dot(eqn: Any) -> bool:
    return eqn.primitive.name == "dot_general" and not any(eqn.params["dimension_numbers"][1])


def _multiplies(eqn: Any) -> bool:
    names = ("dot_general", "conv_general_dilated", *_KEPT_PRIMITIVES)
    return any(each.primitive.name in names for each in (eqn, *equations_inside(eqn)))
