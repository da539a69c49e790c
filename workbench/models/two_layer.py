"""The running example of Mesh-TensorFlow (Shazeer et al. 2018, arXiv:1811.02084, section 4): y = relu(x w) v, with weight gradients.

b, io, h: the sizes of `batch`, `io`, `hidden`. A step has 6 b io h multiplications: forward and two gradients, two products each.

    layout                    all-reduced elements per device
    batch:all (n)             dw, dv   2 io h                     data parallel
    hidden:all (n)            y        b io                       model parallel
    batch:rows, hidden:cols   y        b io / rows     dw, dv   2 io h / cols
    batch:rows, io:cols       hidden   2 b h / rows    dw, dv   2 io h / cols     hidden forward, its gradient backward
"""

from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.tracing import trace

LAYOUTS = (
    ("all:8", ""),
    ("all:8", "batch:all"),
    ("all:8", "hidden:all"),
    ("rows:2 cols:4", "batch:rows; hidden:cols"),
    ("rows:2 cols:4", "batch:rows; io:cols"),
    ("rows:2 cols:4", "io:rows; hidden:cols"),
    ("x:2 y:2 z:2", "batch:x; io:y; hidden:z"),
)
"""The rows of the paper's table."""


def forward(x: Any, w: Any, v: Any) -> Any:
    """Output float[batch, io] of x[batch, io], w[io, hidden], v[hidden, io]."""
    with jax.named_scope("first"):
        hidden = jax.nn.relu(x @ w)
    with jax.named_scope("second"):
        return hidden @ v


def two_layer(x: Any, w: Any, v: Any) -> dict[str, Any]:
    """Return `{"y", "dw", "dv"}`: the output and the weight gradients of |y|^2 / 2; no gradient of x, as in the paper.

    With that loss dy = y, so no communication is added to the paper's table. Its value would add some and is not
    returned.
    """
    y, pull_back = jax.vjp(lambda w, v: forward(x, w, v), w, v)
    dw, dv = pull_back(y)
    return {"y": y, "dw": dw, "dv": dv}


def build(*, batch: int = 512, io: int = 1024, hidden: int = 4096) -> Program:
    """Build the program at these sizes; the defaults are the golden instance of the tests."""
    x, w, v = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((batch, io), (io, hidden), (hidden, io)))
    return trace(two_layer, x, w, v, dims={"x": "batch io", "w": "io hidden", "v": "hidden io"}, name="two-layer")
