"""Names of dimensions that a framework's own layers have: the heads of attention, in Flax and in Keras."""

import re
from typing import Any

from workbench.tracing.leaves import Leaves

_ATTENTION = re.compile(r"(.*/)(query|key|value|out|attention_output)/kernel")
_OUTWARDS = ("out", "attention_output")
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
            stacked = "_ " * (len(shape) - _RANK)  # layers that are scanned
            is_fewer = match[2] in ("key", "value") and shape[-2:-1] != query[-2:-1]
            found[path] = (
                f"{stacked}heads d_head _" if match[2] in _OUTWARDS else f"{stacked}_ {'kv_heads' if is_fewer else 'heads'} d_head"
            )
    return found
