"""Names of dimensions that a framework's own layers have: the heads of attention, in Flax and in Keras."""

import re
from typing import Any

from workbench.tracing.leaves import Leaves

_KERNELS = {
    "query/kernel": "{stacked}_ {heads} d_head",
    "out/kernel": "{stacked}{heads} d_head _",
    "attention_output/kernel": "{stacked}{heads} d_head _",
}
"""Kernels of an attention layer, of three dimensions or, of layers that are stacked, of four; those of keys and values are as of queries."""
_ATTENTION = re.compile(r"(.*/)(query|key|value|out|attention_output)/kernel")
_RANK = 3


def attention_dims(params: Any) -> dict[str, str]:
    """The names by path. Fewer heads of keys and values than of queries are `kv_heads`.

    >>> import jax
    >>> kernel = {"kernel": jax.ShapeDtypeStruct((64, 4, 16), "float32")}
    >>> attention_dims({"query": kernel, "out": {"kernel": jax.ShapeDtypeStruct((4, 16, 64), "float32")}})
    {'params/out/kernel': 'heads d_head _', 'params/query/kernel': '_ heads d_head'}
    """
    leaves = Leaves.of("params", params)
    shapes = {path: spec.shape for path, spec in zip(leaves.paths, leaves.specs, strict=True)}
    found = {}
    for path, shape in shapes.items():
        match = _ATTENTION.fullmatch(path)
        query = shapes.get(f"{match[1]}query/kernel", ()) if match else ()
        if match and len(query) == len(shape) and _RANK <= len(shape) <= _RANK + 1:
            is_in = match[2] in ("query", "key", "value")
            heads = "heads" if not is_in or shape[-2] == query[-2] else "kv_heads"
            text = _KERNELS["query/kernel" if is_in else f"{match[2]}/kernel"]
            found[path] = text.format(stacked="_ " * (len(shape) - _RANK), heads=heads)
    return found
