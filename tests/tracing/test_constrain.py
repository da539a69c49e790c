"""Constraints on intermediate values: the function computes the same, laid out as asked, in loops and derivatives too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from workbench.core.layout import Layout
from workbench.core.path_patterns import operations_at
from workbench.errors import LayoutError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.tracing import constrain, trace

pytestmark = pytest.mark.compile


def jax_mesh():
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def network(x, w):
    def layer(h, weight):
        with jax.named_scope("layer"):
            return jnp.tanh(h @ weight), None

    with jax.named_scope("tower"):
        h, _ = jax.lax.scan(jax.checkpoint(layer), x, w)
    with jax.named_scope("head"):
        return jax.lax.cond(h.sum() > 0, lambda y: y * 2, lambda y: -y, h)


def gradient(x, w):
    return jax.grad(lambda *args: (network(*args) ** 2).sum(), argnums=(0, 1))(x, w)


@pytest.mark.parametrize("fn", [network, gradient])
def test_a_constrained_function_computes_the_same(fn):
    x, w = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8), np.linspace(-1, 1, 192, dtype=np.float32).reshape(3, 8, 8)
    layout = Layout("@tower/layer/dot_general=[data, model]; @tower/layer/tanh=[data, ?]; @head/mul=[model, -]")
    constrained = constrain(lambda *args: tuple(jax.tree.leaves(fn(*args))), layout.constraints, jax_mesh())
    for ours, plain in zip(jax.jit(constrained)(x, w), jax.tree.leaves(jax.jit(fn)(x, w)), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-4)  # 1 - tanh² is round-off where tanh is nearly 1


def test_the_constraint_stands_in_the_lowered_loop():
    layout = Layout("@tower/layer/dot_general=[data, model]")
    constrained = constrain(lambda *args: (network(*args),), layout.constraints, jax_mesh())
    text = jax.jit(constrained).lower(jnp.zeros((8, 8)), jnp.zeros((3, 8, 8))).as_text()
    assert '<@mesh, [{"data"}, {"model"}]>' in text
    assert text.count("sdy.sharding_constraint") == 1


def test_planner_and_engine_constrain_the_same_values():
    """As many constraints as the planner inserts are in the program the engine lowers."""
    program = build("gpt", preset="tiny", scan=False)
    pattern = "mlp/up/dot_general"
    planned = operations_at(program, pattern, 3)
    constraints = Layout(f"@{pattern}=[data, -, model]").constraints
    specs = [jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in program.arguments]
    text = jax.jit(constrain(program.step.call, constraints, jax_mesh())).lower(*specs).as_text()
    assert len(planned) == text.count("sdy.sharding_constraint") > 0


def test_a_constraint_changes_the_plan():
    program = trace(lambda x, w: jnp.tanh(x @ w), jax.ShapeDtypeStruct((8, 8), "float32"), jax.ShapeDtypeStruct((8, 8), "float32"))
    free = Plan(program, "data:4 model:2", "x=[data, -]").report()
    held = Plan(program, "data:4 model:2", "x=[data, -]; @tanh=[-, model]").report()
    assert free.collectives == ()
    assert held.collectives


def test_a_constraint_on_nothing_is_refused():
    program = build("two_layer")
    with pytest.raises(LayoutError, match="There is no intermediate value `nowhere`"):
        Plan(program, "data:8", "@nowhere=[data, -]")
