"""How a program lays out its own arguments is its layout, unless the plan says otherwise."""

import jax
import jax.numpy as jnp
import optax
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import workbench as wb
from workbench.errors import LayoutError, RecipeError, TraceError

MESH = AbstractMesh((4, 2), ("data", "model"), (AxisType.Auto,) * 2)


def shaped(*shape, spec=None):
    sharding = None if spec is None else NamedSharding(MESH, spec)
    return jax.ShapeDtypeStruct(shape, "float32", sharding=sharding)


def loss(params, batch):
    hidden = jax.nn.relu(batch["x"] @ params["layers"]["0"]["w1"])
    return jnp.mean((hidden @ params["layers"]["0"]["w2"] + params["bias"]) ** 2)


@pytest.fixture(scope="module")
def training():
    layer = {"w1": shaped(16, 64, spec=P(None, "model")), "w2": shaped(64, 16, spec=P("model"))}
    params = {"layers": {"0": layer}, "bias": shaped(16)}
    batch = {"x": shaped(32, 16, spec=P("data"))}
    return wb.trace_training(loss, params, batch, optimizer=optax.adam(1e-3))


def test_the_moments_of_a_parameter_are_split_as_it_is(training):
    plan = wb.Plan(training, "data:4 model:2")
    placed = {each.path: str(sharding) for each, sharding in zip(training.arguments, plan.argument_shardings, strict=True)}
    assert placed["params/layers/0/w1"] == placed["opt_state/0/mu/layers/0/w1"] == placed["opt_state/0/nu/layers/0/w1"] == "[-, model]"
    assert placed["params/layers/0/w2"] == "[model, -]"
    assert placed["params/bias"] == "[-]"
    assert placed["batch/x"] == "[data, -]"


def test_it_can_be_asked_for_changed_and_left(training):
    asked = wb.Plan(training, "data:4 model:2", "as written")
    assert asked == wb.Plan(training, "data:4 model:2")
    assert wb.Plan(training, "data:4 model:2", "").layout == wb.Plan(training, "data:4 model:2", wb.Layout("")).layout
    assert str(wb.Plan(training, "data:4 model:2", "batch:data").layout) == "batch:data"
    assert wb.Plan(training, "data:4 model:2", str(asked.layout)) == asked


def test_other_sizes_are_taken_and_other_axes_are_refused(training):
    assert wb.Plan(training, "data:2 model:4", "as written").layout == wb.Plan(training, "data:4 model:2").layout
    assert str(wb.Plan(training, "x:8").layout) == ""
    with pytest.raises(LayoutError, match=r"over `(data|model)`, which the mesh `x:8` does not have"):
        wb.Plan(training, "x:8", "as written")


def test_a_program_that_lays_out_nothing_says_so():
    program = wb.trace(lambda x: x * 2, shaped(8, 8))
    with pytest.raises(LayoutError, match="does not lay out its arguments itself"):
        wb.Plan(program, "data:8", "as written")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (jax.shard_map(jnp.tanh, mesh=MESH, in_specs=P("data", "model"), out_specs=P("data", "model")), "[data, model]"),
        (lambda x: jnp.tanh(jax.lax.with_sharding_constraint(x, NamedSharding(MESH, P(None, ("data", "model"))))), "[-, data+model]"),
        (jax.shard_map(jnp.tanh, mesh=MESH, in_specs=P("data"), out_specs=P("data"), axis_names={"data"}), "[data, -]"),
    ],
    ids=["in_specs", "constraint", "one manual axis"],
)
def test_what_a_function_does_first_with_an_argument_is_how_it_lies(function, expected):
    plan = wb.Plan(wb.trace(function, shaped(64, 64)), "data:4 model:2")
    assert str(plan.argument_shardings[0]) == expected
    assert plan.report().sent == 0


def test_layers_share_one_statement():
    layers = {str(i): shaped(16, 16, spec=P(None, "model")) for i in range(6)}
    program = wb.trace(lambda params, x: sum(x @ each for each in params.values()), layers, shaped(8, 16))
    assert str(wb.Plan(program, "data:4 model:2").layout) == "params/*=[-, model]"


def test_a_mapped_function_over_explicit_axes_without_types_says_what_to_write():
    mesh = AbstractMesh((4, 2), ("data", "model"), (AxisType.Explicit,) * 2)
    function = jax.shard_map(jnp.tanh, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
    with pytest.raises(TraceError) as caught:
        wb.trace(function, shaped(64, 64))
    assert "sharding=jax.NamedSharding" in caught.value.ways_out[0]


def test_the_recipe_puts_the_statements_of_the_program_back(training):
    changed = wb.Plan(training, "data:4 model:2", "batch:data")
    assert (
        changed.recipe("as_written").argument_shardings
        == wb.Plan(training, "data:4 model:2", "batch:data")
        .updated(layout=wb.Layout("batch:data", overrides=wb.Plan(training, "data:4 model:2").layout.overrides))
        .argument_shardings
    )
    with pytest.raises(RecipeError, match="already as written"):
        wb.Plan(training, "data:4 model:2").recipe("as_written")
