"""Where a value may be left a partial sum: judged by what Shardy makes of the plan, for XLA runs the others to wrong numbers."""

import jax
import jax.numpy as jnp
import pytest

from workbench.errors import LayoutError
from workbench.public_plan import Plan
from workbench.tracing import trace


def sums(x, w1, w2):
    with jax.named_scope("a"):
        h = x @ w1
    with jax.named_scope("b"):
        u = jnp.tanh(x) @ w2
    with jax.named_scope("both"):
        return jnp.sin(h + u), jnp.cos(u)


@pytest.fixture(scope="module")
def pair():
    shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((8, 16), (16, 32), (16, 32))]
    return trace(sums, *shapes, dims={"x": "batch embed", "w1": "embed ff", "w2": "embed ff"}, name="sums")


BOTH = "@a/dot_general=[-, -] unreduced:model; @b/dot_general=[-, -] unreduced:model"


@pytest.mark.parametrize(
    "layout",
    [
        "embed:model; @a/dot_general=[-, -] unreduced:model",
        "batch:data; embed:model; @a/dot_general=[data, -] unreduced:model",
        "embed:data+model; @a/dot_general=[-, -] unreduced:model",
        f"embed:model; {BOTH}; @both/add=[-, -] unreduced:model",
    ],
)
def test_a_sum_over_a_split_dimension_and_a_sum_of_such_sums_may_be_left(pair, layout):
    assert Plan(pair, "data:4 model:2", layout).report().collectives


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("batch:data; @b/tanh=[data, -] unreduced:model", "adding those up would count it 2 times"),
        ("embed:model; @b/tanh=[-, -] unreduced:data", "adding those up would count it 4 times"),
        ("batch:data; @a/dot_general=[data, -] unreduced:model", "split `embed`, which it sums over, on `model`"),
        ("embed:model; @both/add=[-, -] unreduced:model", "`both/add` (test_partial_sums.py:"),
        (f"embed:model; {BOTH}; @both/sin=[-, -] unreduced:model", "`both/sin`"),
        ("embed:model; @a/dot_general=[?, ?] unreduced:model", "such as `@a/dot_general=[-, -] unreduced:model`"),
    ],
)
def test_what_is_whole_on_every_device_is_no_partial_sum(pair, layout, said):
    with pytest.raises(LayoutError) as raised:
        Plan(pair, "data:4 model:2", layout).report()
    assert said in str(raised.value)
    assert "out of `@" in str(raised.value)


def test_an_axis_of_one_device_leaves_nothing_to_sum(pair):
    assert Plan(pair, "data:4 model:1", "@b/tanh=[-, -] unreduced:model").report().values
