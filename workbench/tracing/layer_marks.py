"""Marks in a program: layers and named values, so that a plan can choose what the backward pass keeps (`core.remat`), and what is one
hand-written kernel on the target.

    @wb.layer
    def block(weights, x):
        hidden = checkpoint_name(jax.nn.gelu(x @ weights["w1"]), "mlp_hidden")
        return x + hidden @ weights["w2"]

Neither changes what is computed. A layer that is `jax.checkpoint`ed already is one, too.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import jax
from jax.extend import core as jex_core
from jax.extend.core import primitives

from workbench.core.remat import Remat
from workbench.propagation import kernel_scope
from workbench.propagation.module.source_location import marked_kernel
from workbench.tracing.jaxpr.equations import CALLS, equations_inside, rewrite_inside, substituted, variables

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def layer(fn: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """`fn`, marked as a layer: the unit to which a plan's remat policy applies.

    Arguments are pytrees of arrays; bind anything else with `functools.partial` first. Outside a plan everything is
    kept, as without the mark.
    """
    return jax.checkpoint(fn, policy=keep_everything, prevent_cse=False)


def keep_everything(primitive: Any, *operands: Any, **params: Any) -> bool:  # noqa: ARG001 - the signature of a checkpoint policy
    """The checkpoint policy of a marked layer, by which the tracer recognizes it."""
    return True


def policy_of(remat: Remat) -> Callable[..., Any] | None:
    """JAX's checkpoint policy for a layer; `None` keeps nothing. `dots_every` needs layers from `mark_kept_dots`."""
    match remat.policy:
        case "dots":
            return jax.checkpoint_policies.dots_saveable
        case "dots_no_batch":
            return jax.checkpoint_policies.dots_with_no_batch_dims_saveable
        case "offload_dots_no_batch":
            return jax.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")
        case "dots_every":
            return keep_marked(_named_policy((KEPT_RESULT, *remat.names), remat.offloaded))
        case "save" | "offload":
            return _named_policy(remat.names, remat.offloaded)
    return None


def _named_policy(names: Sequence[str], offloaded: Sequence[str]) -> Callable[..., Any]:
    if not offloaded:
        return jax.checkpoint_policies.save_only_these_names(*names)
    return jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=list(names), names_which_can_be_offloaded=list(offloaded), offload_src="device", offload_dst="pinned_host"
    )


# `fused_kernel`: operations traced inside are one hand-written kernel on the target.


def fused_kernel(name: str, *, work: float = 1.0) -> AbstractContextManager[None]:
    """A named scope that the planner treats as one kernel, such as a Pallas or cuDNN kernel.

    Values without readers outside are never stored; traffic is only the scope's inputs and outputs. `work` is the
    fraction of the dots that the kernel computes, 0.5 for an attention that skips its causal mask. A compiled or live
    run computes the plain form. The residuals are kept unless the function called in the scope is itself under
    `jax.checkpoint`; under a checkpoint of a whole layer they are recomputed, and kept until that layer's backward pass
    has used them.

    >>> with fused_kernel("softmax"):
    ...     pass
    """
    return jax.named_scope(kernel_scope(name, work))


# Implements remat `dots_every:N` by naming the kept results in a layer's jaxpr.
#
# Of the products without batch dimensions (of weights), in layer order, the first and every N-th after it are kept: every
# other one with N = 2, as torchtitan's selective activation checkpointing counts `mm` (`activation_checkpoint.py`,
# `_apply_op_sac`). A function with a custom derivative (`jax.custom_vjp`) that multiplies counts as one product. As
# there, results of attention are also kept, if it is a hand-written kernel or has a custom derivative, and those of
# collectives in a `shard_map`, which would be sent again. Counting once on the jaxpr keeps the policy stateless.


KEPT_RESULT = "kept result"
"""The name of kept values; with its space it cannot occur in a remat text."""
_HOLDERS = (*CALLS, "scan", "cond", "shard_map")  # JAX's policies apply inside these
_OWN_DERIVATIVE = ("custom_vjp_call", "custom_jvp_call")
_KEPT_PRIMITIVES = ("pallas_call", "ffi_call", "psum", "psum_invariant", "reduce_scatter", "all_to_all")


def keep_marked(named: Callable[..., Any]) -> Callable[..., Any]:
    """The checkpoint policy `named`, extended to keep results of hand-written kernels and collectives."""

    def policy(primitive: Any, *operands: Any, **params: Any) -> Any:
        return primitive.name in _KEPT_PRIMITIVES or named(primitive, *operands, **params)

    return policy


def keep_every_dot(fn: Callable[..., Any], every: int) -> Callable[..., Any]:
    """`jax.checkpoint` of `fn`, a function of pytrees of arrays, with policy `dots_every`."""
    policy = keep_marked(jax.checkpoint_policies.save_only_these_names(KEPT_RESULT))

    def call(*args: Any) -> Any:
        closed, shape = jax.make_jaxpr(fn, return_shape=True)(*args)
        marked = jex_core.ClosedJaxpr(mark_kept_dots(closed.jaxpr, every), closed.consts)
        run = jax.checkpoint(jex_core.jaxpr_as_fun(marked), policy=policy)
        return jax.tree.unflatten(jax.tree.structure(shape), run(*jax.tree.leaves(args)))

    return call


def mark_kept_dots(jaxpr: Any, every: int) -> Any:
    """A layer's jaxpr with the kept values named `KEPT_RESULT`."""
    return _Marker(every).mark(jaxpr)


@dataclass(slots=True)
class _Marker:
    """Walks through one layer and counts its products."""

    every: int
    counted: int = 0

    def mark(self, jaxpr: Any) -> Any:
        leaving = _leaving_kernels(jaxpr)
        renamed: dict[Any, Any] = {}
        eqns: list[Any] = []
        for old_eqn in jaxpr.eqns:
            eqn = old_eqn.replace(invars=substituted(old_eqn.invars, renamed))
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
    return jex_core.new_jaxpr_eqn([var], [named], primitives.name_p, {"name": KEPT_RESULT}, set(), eqn.source_info, eqn.ctx)


def _kernel_of(eqn: Any) -> str:
    """The scope of the hand-written kernel around an equation, up to its mark; empty outside kernels."""
    stack = str(eqn.source_info.name_stack)
    return stack.partition("@kernel")[0] if marked_kernel(stack) else ""


def _leaving_kernels(jaxpr: Any) -> set[Any]:
    """The outputs of hand-written kernels with products."""
    kernels = {kernel for eqn in jaxpr.eqns if (kernel := _kernel_of(eqn)) and _multiplies(eqn)}
    kernel_of = {var: _kernel_of(eqn) for eqn in jaxpr.eqns if _kernel_of(eqn) in kernels for var in eqn.outvars}
    read = {var for eqn in jaxpr.eqns for var in variables(eqn.invars) if kernel_of.get(var) not in (None, _kernel_of(eqn))}
    return read | {var for var in variables(jaxpr.outvars) if var in kernel_of}


def _is_counted(eqn: Any) -> bool:
    """Return whether an equation is a product of weights, or a function with a custom derivative that computes one."""
    inside = equations_inside(eqn) if eqn.primitive.name in _OWN_DERIVATIVE else (eqn,)
    return any(_is_plain_dot(inner_eqn) or inner_eqn.primitive.name == "conv_general_dilated" for inner_eqn in inside)


def _is_plain_dot(eqn: Any) -> bool:
    return eqn.primitive.name == "dot_general" and not any(eqn.params["dimension_numbers"][1])


def _multiplies(eqn: Any) -> bool:
    names = ("dot_general", "conv_general_dilated", *_KEPT_PRIMITIVES)
    return any(inner_eqn.primitive.name in names for inner_eqn in (eqn, *equations_inside(eqn)))
