"""The same shardings, as each compiler takes them: what XLA:TPU, XLA:GPU and XLA:CPU were seen to make of them."""

import jax
import jax.numpy as jnp
import optax
import pytest

import workbench as wb
from workbench.analysis.tier_comparison import compare_collectives
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.propagation.xla_backends import CPU, GPU, NO_HARDWARE, TPU, backend_of


def spec(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


def sent(program, mesh, layout, hardware=None):
    plan = wb.Plan(program, mesh, layout)
    hardware = hardware and parse_hardware(hardware)
    return dict(wb.Plan(program, mesh, layout, hardware=hardware).report().by_axis_and_kind if hardware else plan.report().by_axis_and_kind)


@pytest.mark.parametrize(
    ("hardware", "backend"), [("TPU v5e 2x4", TPU), ("8 H100", GPU), ("8 CPU", CPU), (None, NO_HARDWARE)], ids=["tpu", "gpu", "cpu", "none"]
)
def test_a_back_end_goes_with_its_hardware(hardware, backend):
    assert backend_of(hardware and parse_hardware(hardware)) == backend


def tied(dtype="float32"):
    """The gradient of a matrix that is used twice is a sum of two sums over the batch."""

    def gradient(params, x):
        def loss(w):
            return jnp.sum(jnp.tanh(x @ w) @ w.T)

        return jax.grad(loss)(params)

    return wb.trace(gradient, spec(64, 128, dtype=dtype), spec(32, 64, dtype=dtype), dims={"x": "batch d_in", "params": "d_in d_out"})


def test_two_sums_that_are_only_added_are_reduced_once_on_a_tpu():
    whole = 4 * 64 * 128
    assert sent(tied(), "data:8", "batch:data") == {(("data",), "all-reduce"): 2 * whole}
    assert sent(tied(), "data:8", "batch:data", "TPU v5e 2x4") == {(("data",), "all-reduce"): whole}


def three_products():
    """The gradient of what three products read, as queries, keys and values do, is a sum of three sums over their columns."""

    def loss(x, params):
        return sum(jnp.sum(jnp.tanh(x @ w)) for w in params)

    return wb.trace(jax.grad(loss), spec(32, 64), [spec(64, 128)] * 3, dims={"x": "batch d_in", "params/*": "d_in d_out"})


def sum_of_sums():
    return wb.trace(lambda x: jnp.sum(jnp.sum(x, 0), (1, 2)), spec(64, 32, 16, 8), dims={"x": "batch channel row column"})


def recurrence():
    """The gradients of a joined matrix and of its biases are cut apart and added up, turn by turn."""

    def loss(params, x):
        kernel, bias = jnp.concatenate(params["kernels"], 1), jnp.concatenate(params["biases"])

        def cell(hidden, part):
            gate, new = jnp.split(jnp.concatenate([hidden, part], 1) @ kernel + bias, 2, 1)
            return jax.nn.sigmoid(gate) * jnp.tanh(new), None

        return jnp.sum(jax.lax.scan(cell, jnp.zeros((64, 32)), x)[0])

    params = {"kernels": [spec(48, 32)] * 2, "biases": [spec(32)] * 2}
    return wb.trace(jax.grad(loss), params, spec(16, 64, 16), dims={"x": "time batch d_in"})


def chosen_scores():
    """Each row's own entry is looked up, as in the loss of a classifier or of Q-learning."""

    def loss(w, x, labels):
        return jnp.sum((x @ w)[jnp.arange(64), labels])

    return wb.trace(jax.grad(loss), spec(32, 24), spec(64, 32), spec(64, dtype="int32"), dims={"x": "batch d_in", "labels": "batch"})


def frames():
    """A product over frames that are numbered through: its reshape cannot be split along the batch."""
    return wb.trace(lambda w, x: jnp.tanh(x.reshape(-1, 64) * 2) @ w, spec(64, 16), spec(20, 64, 64), dims={"x": "time batch d_in"})


def next_words(split, tokens=(8, 32), rows=256, width=16):
    """A language model under ZeRO-3, its table split along rows or columns."""

    def loss(params, tokens, targets):
        hidden = params["table"][tokens] @ params["w"]
        return optax.softmax_cross_entropy_with_integer_labels(hidden @ params["head"], targets).mean()

    params = {"table": spec(rows, width), "w": spec(width, width), "head": spec(width, rows)}
    given = spec(*tokens, dtype="int32")
    program = wb.trace(jax.value_and_grad(loss), params, given, given, dims={"tokens": "batch seq", "targets": "batch seq"})
    return wb.Plan(program, "data:8", f"batch:data; w=[data, -]; head=[-, data]; table={split}", hardware="TPU v5e 2x4")


@pytest.mark.parametrize(("split", "gathered"), [("[data, -]", 2 * 256 * 16), ("[-, data]", 4 * 8 * 32)])
def test_a_tpu_adds_the_gradient_of_the_words_picked_onto_what_it_is_added_to(split, gathered):
    """So the numbers of the tokens are gathered, and no gradient of the logits is exchanged; a table is gathered as products read it."""
    report = next_words(split).report()
    assert "all-to-all" not in {each.kind for each in report.collectives}
    assert gathered in {each.payload for each in report.collectives if each.kind == "all-gather"}


@pytest.mark.compile
@pytest.mark.share(2)
@pytest.mark.parametrize("split", ["[data, -]", "[-, data]"])
def test_a_language_model_on_a_tpu_is_planned_as_it_is_partitioned(split):
    plan = next_words(split)
    rows = compare_collectives(plan.report(), plan.partition().by_axis_and_kind)
    assert rows
    assert not [row for row in rows if not row.is_close]


TPU_SENDS = [
    (three_products, "d_out:data", 3 * 4 * 32 * 64, 4 * 32 * 64),
    (sum_of_sums, "batch:data", 4 * 32 * 16 * 8, 4 * 32),
    (recurrence, "batch:data", 16 * 4 * 49 * 64, 4 * 49 * 64),
    (chosen_scores, "batch:data", 4 * (32 * 24 + 64 * 2), 4 * 32 * 24),
    (frames, "batch:data", 4 * 20 * 64 * 64, 2 * 20 * 64 * 64),
]
"""Of each program: what is planned without hardware, as XLA:CPU makes it, and for a TPU."""


@pytest.mark.parametrize(("make", "layout", "plain", "on_tpu"), TPU_SENDS, ids=[make.__name__ for make, *_ in TPU_SENDS])
def test_what_a_tpu_simplifies_before_or_behind_the_partitioner_is_not_sent(make, layout, plain, on_tpu):
    program = make()
    assert sum(sent(program, "data:8", layout).values()) == plain
    assert sum(sent(program, "data:8", layout, "TPU v5e 2x4").values()) == on_tpu


@pytest.mark.compile
@pytest.mark.share(4)
@pytest.mark.parametrize("hardware", [None, "TPU v5e 2x4"])
@pytest.mark.parametrize(("make", "layout"), [each[:2] for each in TPU_SENDS], ids=[make.__name__ for make, *_ in TPU_SENDS])
def test_these_programs_are_planned_as_they_are_partitioned(make, layout, hardware):
    plan = wb.Plan(make(), "data:8", layout, hardware=hardware)
    rows = compare_collectives(plan.report(), plan.partition().by_axis_and_kind)
    assert rows
    assert not [row for row in rows if not row.is_close]


def test_a_cpu_reduces_two_byte_floats_as_four_byte_ones():
    plain, wide = (sent(tied("bfloat16"), "data:8", "batch:data", hardware) for hardware in (None, "8 CPU"))
    assert wide == {key: 2 * count for key, count in plain.items()}


def of_layers(mesh, layout, hardware, path):
    """The largest payloads of a small GPT's collectives at one place, by mesh axes and kind."""
    plan = wb.Plan(build("gpt"), mesh, layout, hardware=hardware)
    found = sorted((each for each in plan.report().collectives if each.path == path), key=lambda each: each.payload)
    return {(each.axes, each.kind): each.payload for each in found}


FSDP = "data:8", "batch:data; d_model:data; @embedding/add=[data, ?, ?]"
THREE = "data:2 fsdp:2 model:2", "batch:data+fsdp; d_model:fsdp; d_ff:model; heads:model; @embedding/add=[data+fsdp, ?, ?]"
WEIGHT = 4 * 64 * 256  # d_model x d_ff, in float32


@pytest.mark.parametrize(("hardware", "width"), [(None, 1), ("TPU v5e 2x4", 2), ("8 H100", 1)], ids=["none", "tpu", "gpu"])
def test_a_tpu_gathers_in_bfloat16_what_a_product_rounds_to_it(hardware, width):
    gathers = of_layers(*FSDP, hardware, "layers/dynamic_index_in_dim/squeeze")
    assert gathers == {(("data",), "all-gather"): WEIGHT // width}


@pytest.mark.parametrize(("precision", "width"), [("default", 2), ("highest", 1)])
def test_a_product_of_high_precision_is_gathered_as_it_is(precision, width):
    program = wb.trace(
        lambda params, x: jnp.matmul(x, params, precision=precision),
        spec(64, 128),
        spec(512, 64),
        dims={"x": "batch d_in", "params": "d_in d_out"},
    )
    assert sent(program, "data:8", "batch:data; d_out:data; x=[data, -]", "TPU v5e 2x4") == {
        (("data",), "all-gather"): 4 * 64 * 128 // width
    }


def test_a_sum_of_which_a_part_is_kept_is_scattered_before_the_rest_is_reduced():
    place, whole = "grad/layers/mlp/down/dot_general", WEIGHT // 2
    for hardware in ("TPU v5e 2x4", "8 H100"):
        assert of_layers(*THREE, hardware, place) == {(("fsdp",), "reduce-scatter"): whole, (("data",), "all-reduce"): whole // 2}


def test_every_habit_is_one_of_some_back_end():
    """A field that no back end differs in would be none."""
    assert all(any(getattr(each, name) != value for each in (TPU, GPU, CPU)) for name, value in NO_HARDWARE._asdict().items())


def exchanged_for_a_map():
    """The weight's rows are sharded, and a `shard_map` multiplies by its columns."""
    mesh = jax.sharding.AbstractMesh((8,), ("model",), (jax.sharding.AxisType.Auto,))
    body = jax.shard_map(lambda x, w: jnp.tanh(x) @ w, mesh=mesh, in_specs=(jax.P(), jax.P(None, "model")), out_specs=jax.P(None, "model"))
    return wb.trace(body, spec(16, 64), spec(64, 32), dims={"x": "batch i", "w": "i o"})


def gathered_for_a_map():
    mesh = jax.sharding.AbstractMesh((8,), ("model",), (jax.sharding.AxisType.Auto,))
    body = jax.shard_map(lambda x, w: x @ w, mesh=mesh, in_specs=(jax.P("model"), jax.P()), out_specs=jax.P("model"))
    return wb.trace(body, spec(16, 64), spec(64, 32), dims={"x": "batch i", "w": "i o"})


@pytest.mark.parametrize(
    ("program", "kind", "size"), [(exchanged_for_a_map, "all-to-all", 64 * 4), (gathered_for_a_map, "all-gather", 64 * 32)]
)
def test_a_tpu_rounds_what_a_map_multiplies_before_it_is_sent(program, kind, size):
    assert sent(program(), "model:8", "w=[model, -]")[("model",), kind] == 4 * size
    assert sent(program(), "model:8", "w=[model, -]", "TPU v5e 2x4")[("model",), kind] == 2 * size
    plan = wb.Plan(program(), "model:8", "w=[model, -]", hardware="TPU v5e 2x4")
    assert plan.report().by_axis_and_kind == plan.report("partitioned").by_axis_and_kind


@pytest.mark.parametrize("is_stacked", [False, True])
def test_a_tpu_rounds_what_a_map_itself_gathers_for_a_product(is_stacked):
    mesh = jax.sharding.AbstractMesh((8,), ("data",), (jax.sharding.AxisType.Auto,))

    def multiply(x, w):
        whole = jax.lax.all_gather(w, "data", tiled=True)
        return jnp.tanh(x @ whole)

    layer = jax.shard_map(multiply, mesh=mesh, in_specs=jax.P("data"), out_specs=jax.P("data"))

    def stacked(x, w):
        return jax.lax.scan(lambda value, part: (layer(value, part), None), x, w)[0]

    weights = spec(3, 64, 64) if is_stacked else spec(64, 64)
    program = wb.trace(stacked if is_stacked else layer, spec(16, 64), weights, dims={"w": "layer i o" if is_stacked else "i o"})
    plan = wb.Plan(program, "data:8", "i:data", hardware="TPU v5e 2x4")
    assert plan.report().by_axis_and_kind == {(("data",), "all-gather"): 64 * 64 * 2 * (3 if is_stacked else 1)}
    assert plan.report().by_axis_and_kind == plan.report("partitioned").by_axis_and_kind
