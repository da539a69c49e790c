"""FLOP and bytes of one equation, from shapes alone: enough to weigh blocks against each other before any hardware is chosen."""

import math
from typing import Any

from jax.extend import core as jex_core

_MOVES = ("reshape", "squeeze", "broadcast_in_dim", "transpose", "convert_element_type", "copy", "slice", "concatenate", "iota", "name")
"""Primitives that compute nothing."""


def size_of(aval: Any) -> int:
    """Bytes of a value; a random key's are those of its words."""
    itemsize = getattr(aval.dtype, "itemsize", 4)
    return math.prod(aval.shape) * int(itemsize)


def flops_of(eqn: Any) -> int:
    """Floating-point operations: 2 m n k of a dot, one per element of anything else, a loop's body times its trip count."""
    name, params = eqn.primitive.name, eqn.params
    inner = list(jex_core.jaxprs_in_params(params))
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        shape = eqn.invars[0].aval.shape
        return 2 * math.prod(eqn.outvars[0].aval.shape) * math.prod(shape[i] for i in contracted)
    if name == "conv_general_dilated":
        kernel, numbers = eqn.invars[1].aval.shape, params["dimension_numbers"].rhs_spec
        return 2 * math.prod(eqn.outvars[0].aval.shape) * math.prod(kernel) // kernel[numbers[0]]
    if inner:
        bodies = [max(inner, key=lambda each: sum(map(flops_of, each.eqns)))] if name == "cond" else inner
        return int(params.get("length", 1)) * sum(flops_of(each) for body in bodies[:1] for each in body.eqns)
    if name in _MOVES:
        return 0
    return max((math.prod(atom.aval.shape) for atom in (*eqn.invars, *eqn.outvars)), default=0)


def traffic_of(eqn: Any) -> int:
    """Bytes read and written if nothing is fused."""
    return sum(size_of(atom.aval) for atom in (*eqn.invars, *eqn.outvars))
