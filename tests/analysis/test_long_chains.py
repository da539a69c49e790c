"""A chain of thousands of operations is planned and reported like any other program: nothing follows it by recursion."""

import jax
import jax.numpy as jnp
import optax
import pytest

from workbench.public_plan import Plan
from workbench.tracing import trace, trace_training

S = jax.ShapeDtypeStruct
X = S((8, 8), "float32")
LONG = 2000


def repeat(step, count=LONG):
    def chain(x, y):
        for _ in range(count):
            x = step(x, y)
        return x * y[:1]

    return chain


CHAINS = {
    "sums": (repeat(jnp.add, 5000), X),
    "numbers": (repeat(lambda x, y: x + y[0, 0]), S((), "float32")),
    "views": (repeat(lambda x, _: x.T), X),
    "barriers": (repeat(lambda x, _: jax.lax.optimization_barrier(x)), X),
    "slices": (repeat(lambda x, _: x[:-1], 1500), S((1501, 8), "float32")),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("hardware", ["2 H100", "TPU v5p 1x1x2"])
@pytest.mark.parametrize("chain", CHAINS)
def test_a_long_chain_is_reported(chain, hardware):
    fn, first = CHAINS[chain]
    report = Plan(trace(fn, first, X), "x:2", hardware=hardware).report()
    product = next(number for number, each in enumerate(report.graph.nodes) if each.path.endswith("mul"))
    inputs = {number for number, each in enumerate(report.graph.nodes) if each.is_input}
    assert inputs & reached(report.graph.edges, product)
    assert report.alive
    assert report.memory_curve.paths
    assert report.timeline is not None
    assert "memory per device" in str(report)
    assert len(report.kernel_costs) >= 1


def reached(edges, start):
    """The nodes that one comes from."""
    makers: dict[int, list[int]] = {}
    for maker, reader in edges:
        makers.setdefault(reader, []).append(maker)
    found, pending = set(), [start]
    while pending:
        for maker in makers.get(pending.pop(), ()):
            if maker not in found:
                found.add(maker)
                pending.append(maker)
    return found


def test_the_norm_of_the_gradients_of_many_tensors_is_planned():
    weights = {f"w{number}": S((4, 4), "float32") for number in range(1500)}

    def loss(params, batch):
        return sum(jnp.sum(w * batch["x"]) for w in params.values())

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1))
    program = trace_training(loss, weights, {"x": S((4, 4), "float32")}, optimizer=optimizer)
    report = Plan(program, "x:2", hardware="2 H100").report()
    assert report.memory.peak >= 1500 * 4 * 4 * 4
    assert len(report.arguments) >= 1500


def test_a_table_looked_up_many_times_is_planned():
    def total(table, tokens):
        return sum(jnp.sum(table[tokens + number]) for number in range(600))

    program = trace(jax.grad(total), S((64, 8), "float32"), S((8,), "int32"))
    report = Plan(program, "x:2", "tokens=[x]", hardware="TPU v5p 1x1x2").report()
    assert {each.kind for each in report.collectives} == {"all-reduce"}
