"""Reshapes that split or merge a sharded dimension are planned as XLA's partitioner makes them."""

import jax
import jax.numpy as jnp
import pytest

from workbench.analysis.tier_comparison import compare_collectives
from workbench.core.mesh import Mesh
from workbench.propagation.insert_dot_reshards import choose_reshape_shardings
from workbench.propagation.module.infer_dim_names import parse_rule
from workbench.public_plan import Plan
from workbench.tracing import trace

S = jax.ShapeDtypeStruct
X, HEADS = S((4, 16, 32), "float32"), S((4, 16, 3, 8, 4), "float32")
W, OUT = S((32, 96), "float32"), S((96, 32), "float32")
KEYS = S((4, 16, 8, 4), "float32")


def split(x, w):
    return (x @ w).reshape(4, 16, 3, 8, 4)[:, :, 0] * 2


def split_for_a_product(x, w, keys):
    return jnp.einsum("bshd,bthd->bhst", (x @ w).reshape(4, 16, 3, 8, 4)[:, :, 0], keys)


def merge(heads, w):
    return heads.reshape(4, 16, 96) @ w


CASES = {
    "split": (split, (X, W), {"w": "d cols"}, "cols:model"),
    "split for a product": (
        split_for_a_product,
        (X, W, KEYS),
        {"w": "d cols", "keys": "b t h e"},
        "cols:model; h:model",
    ),
    "merge": (merge, (HEADS, OUT), {"heads": "b s three h e", "w": "cols d"}, "h:model"),
    "merge for a split sum": (merge, (HEADS, OUT), {"heads": "b s three h e", "w": "cols d"}, "h:model; cols:model"),
}


@pytest.mark.compile
@pytest.mark.parametrize("hardware", [None, pytest.param("TPU v5e 2x4", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("case", CASES)
def test_a_reshape_sends_what_xlas_partitioner_sends(case, hardware):
    fn, arguments, dims, layout = CASES[case]
    plan = Plan(trace(fn, *arguments, dims=dims), "data:2 model:4", layout, hardware=hardware)
    found = plan.report("partitioned").by_axis_and_kind
    assert found
    assert all(row.is_close for row in compare_collectives(plan.report(), found))


@pytest.mark.parametrize(
    ("columns", "heads", "stays"),
    [
        ((("m",),), ((), ("m",), ()), False),  # 96 columns four ways are not 3 x 8 heads four ways
        ((("t",),), (("t",), (), ()), True),  # three ways they are
        ((("t", "m"),), (("t",), ("m",), ()), True),
        ((("m",),), ((), (), ()), False),
        (((),), ((), ("m",), ()), True),
    ],
)
def test_dimensions_that_cannot_be_split_alike_are_gathered(columns, heads, stays):
    rule = parse_rule("#sdy.op_sharding_rule<([ijk])->([i, j, k]) {i=3, j=8, k=4}>")
    chosen = choose_reshape_shardings(rule, (columns, heads), Mesh((("t", 3), ("m", 4))))
    assert chosen == ((columns, heads) if stays else (((),), ((), (), ())))
