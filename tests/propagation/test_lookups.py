"""Table lookups whose table and tokens are split over the same mesh axis are planned as XLA's partitioner makes them."""

import jax
import jax.numpy as jnp
import optax
import pytest

from workbench.analysis.tier_comparison import compare_collectives
from workbench.public_plan import Plan
from workbench.tracing import trace, trace_training

pytestmark = pytest.mark.compile

S = jax.ShapeDtypeStruct
FEW, MANY = 128, 2048  # rows of the table, beside 512 tokens
TOKENS = S((8, 64), "int32")
DIMS = {"tokens": "batch seq", "table": "vocab width"}


def lookup(rows):
    return trace(lambda table, tokens: jnp.take(table, tokens, axis=0), S((rows, 32), "float32"), TOKENS, dims=DIMS)


def gradient(rows):
    def add(table, tokens, grads):
        return jnp.zeros_like(table).at[tokens].add(grads)

    return trace(add, S((rows, 32), "float32"), TOKENS, S((8, 64, 32), "float32"), dims={**DIMS, "grads": "batch seq width"})


def language_model(rows, *, tied=True):
    def loss(params, batch):
        hidden = jnp.tanh(params["table"][batch["tokens"]]) @ params["w"]
        return jnp.mean(jax.nn.logsumexp(hidden @ (params["table"] if tied else params["head"]).T, -1))

    shapes = {"table": (rows, 32), "w": (32, 32), **({} if tied else {"head": (rows, 32)})}
    params = {name: S(shape, "float32") for name, shape in shapes.items()}
    return trace_training(
        loss, params, {"tokens": TOKENS}, optimizer=optax.adam(1e-3), dims={"table": "vocab width", "tokens": "batch seq"}
    )


def differing(plan):
    return [row for row in compare_collectives(plan.report(), plan.partition().by_axis_and_kind) if not row.is_close]


@pytest.mark.parametrize("rows", [FEW, MANY])
@pytest.mark.parametrize("make", [lookup, gradient])
@pytest.mark.parametrize(
    ("mesh", "table", "tokens"),
    [("a:8", "[a, -]", "a"), ("a:2 b:4", "[a+b, -]", "a"), ("a:2 b:4", "[a, -]", "a+b"), ("a:2 b:4", "[a, b]", "a")],
)
def test_the_smaller_of_table_and_rows_is_sent(make, rows, mesh, table, tokens):
    grads = f"; grads=[{tokens}, -, -]" if make is gradient else ""
    assert not differing(Plan(make(rows), mesh, f"table={table}; tokens=[{tokens}, -]{grads}"))


@pytest.mark.parametrize("rows", [FEW, MANY])
@pytest.mark.parametrize("split", ["[data, -]", "[-, data]"])
def test_a_language_model_with_sharded_weights_is_planned_as_it_is_partitioned(rows, split):
    plan = Plan(language_model(rows, tied=False), "data:8", f"batch:data; table={split}; w=[data, -]; head=[data, -]")
    assert not differing(plan)


@pytest.mark.parametrize("rows", [FEW, MANY])
def test_tied_words_under_zero_3_are_planned_as_they_are_partitioned(rows):
    plan = Plan(language_model(rows), "data:8").recipe("data_parallel").recipe("zero_3")
    assert not differing(plan)
    assert max(each.payload for each in plan.report().collectives if each.path == "gather") == min(rows, TOKENS.size) * 32 * 4
