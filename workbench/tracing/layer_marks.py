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
from typing import Any, ParamSpec, TypeVar

import jax

from workbench.core.remat import Remat
from workbench.propagation import kernel_scope
from workbench.tracing.jaxpr.mark_kept_dots import KEPT_RESULT, keep_marked

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
