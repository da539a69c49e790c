"""Optimizers by name: the state of each, what 8-bit moments lose, the matrices of Muon, and their shards under ZeRO."""

from functools import cache
from math import prod

import jax
import jax.numpy as jnp
import optax
import pytest

import workbench as wb
from workbench.core.tensor import Role
from workbench.errors import TraceError
from workbench.models.registry import build, choose_config
from workbench.tracing.named_optimizers import OPTIMIZERS, eight_bit_adamw

FACTOR, TABLE = 4, 8  # bytes of a number of Adafactor's, and of a parameter of AdamW's


@cache
def llama(optimizer):
    return build("decoder", preset="llama3-8b", params="float32", optimizer=optimizer)


def state_bytes(program):
    return sum(each.bytes for each in program.arguments if each.role is Role.OPTIMIZER_STATE)


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name not in ("adafactor", "muon")])
def test_a_parameter_of_llama_has_the_published_bytes_of_state(name):
    program = llama(name)
    assert state_bytes(program) / program.parameters == pytest.approx(OPTIMIZERS[name].state_bytes, rel=0.02, abs=1e-6)


def test_adafactor_keeps_a_row_and_a_column_of_each_matrix():
    config = choose_config("decoder", preset="llama3-8b")
    model, ff = config.d_model, config.d_ff
    up, down, table = 2 * model + 2 * ff, model + ff, model + config.vocab
    qkv = config.kv_heads * config.qkv * (model + config.d_head)
    out = config.kv_heads * config.q_per_kv * (config.d_head + model)
    norms = (2 * config.layers + 1) * model
    expected = config.layers * (qkv + out + up + down) + 2 * table + norms
    assert state_bytes(llama("adafactor")) == pytest.approx(FACTOR * expected, rel=1e-3)


def test_muon_orthogonalizes_matrices_and_leaves_tables_and_norms_to_adamw():
    program, config = llama("muon"), choose_config("decoder", preset="llama3-8b")
    paths = [each.path for each in program.arguments if each.role is Role.OPTIMIZER_STATE]
    tables = 2 * config.vocab * config.d_model + (2 * config.layers + 1) * config.d_model
    assert {path.partition("/layers/")[2] for path in paths if "/muon/" in path and "/layers/" in path} == {
        "attention/wqkv",
        "attention/wo",
        "mlp/w1",
        "mlp/w2",
    }
    assert state_bytes(program) == pytest.approx(4 * program.parameters + (TABLE - 4) * tables, rel=1e-6)


def test_muon_without_names_takes_the_parameters_of_two_dimensions():
    state = jax.eval_shape(wb.optimizer("muon").init, {"w": jnp.zeros((8, 4)), "b": jnp.zeros(4)})
    assert state.inner_states["muon"].inner_state[0].mu["w"].shape == (8, 4)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_zero_shards_the_state_of_each(name):
    program = build("decoder", vocab=512, d_model=128, d_ff=256, layers=2, optimizer=name)
    if not any(each.role is Role.OPTIMIZER_STATE and each.shape for each in program.arguments):
        return
    plan = wb.Plan(program, "data:8", "batch:data")
    whole, sharded = (each.report().memory.by_role[Role.OPTIMIZER_STATE] for each in (plan, plan.recipe("zero_1")))
    assert whole / 8 <= sharded <= whole / 7.5


def test_adam_in_eight_bits_descends_as_adamw_does():
    key = jax.random.key(0)
    target = jax.random.normal(key, (64, 256)) * jnp.logspace(-4, 0, 256)
    losses = {}
    for name, optimizer in {"8 bits": eight_bit_adamw(1e-2), "32 bits": optax.adamw(1e-2)}.items():
        weights, state = jnp.zeros_like(target), optimizer.init(jnp.zeros_like(target))
        for _ in range(60):
            updates, state = optimizer.update(weights - target, state, weights)
            weights = optax.apply_updates(weights, updates)
        losses[name] = float(jnp.square(weights - target).sum())
    assert losses["8 bits"] == pytest.approx(losses["32 bits"], rel=0.05)
    assert losses["8 bits"] < 0.5 * float(jnp.square(target).sum())


def test_arrays_of_few_elements_keep_their_moments_in_float32():
    state = jax.eval_shape(eight_bit_adamw(1e-3).init, {"w": jnp.zeros((64, 256)), "b": jnp.zeros(256)})[0]
    assert (state.mu["w"].dtype, state.mu_scale["w"].shape, state.mu["b"].dtype) == (jnp.float8_e4m3fn, (64, 1), jnp.float32)
    assert len(jax.tree.leaves(state)) == 7


def test_a_float32_copy_is_counted_for_each_weight_whatever_state_the_optimizer_keeps():
    """Megatron Core holds one beside a bfloat16 weight: 4 bytes more than the momentum."""
    program = build("decoder", preset="llama3-8b", optimizer="lion").variant(precision=wb.Precision.parse("moments=float32"))
    plan = wb.Plan(program, "data:8", "batch:data", hardware="8 H100, Megatron Core")
    held = plan.report().memory.by_role[Role.OPTIMIZER_STATE]
    assert held / program.parameters == pytest.approx(4 + 4, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "message", "way_out"),
    [
        ("loin", "There is no optimizer `loin`", "Did you mean `lion`?"),
        ("lion fast", "`fast` is not a learning rate.", 'write a number after the name, "lion 1e-4"'),
    ],
)
def test_an_unknown_name_or_rate_is_refused(text, message, way_out):
    with pytest.raises(TraceError) as caught:
        wb.trace_training(lambda params, batch: (params * batch).sum(), jnp.ones(2), jnp.ones(2), optimizer=text)
    assert caught.value.message.startswith(message)
    assert way_out in str(caught.value)


def test_a_learning_rate_behind_the_name_is_taken():
    updates = [optimizer.update(jnp.ones(1), optimizer.init(jnp.ones(1)))[0] for optimizer in (wb.optimizer("sgd 0.5"), optax.sgd(0.5))]
    assert prod(updates[0] == updates[1])


@pytest.mark.nightly
@pytest.mark.compile
@pytest.mark.parametrize("name", ["adafactor", "adam8bit", "lion", "muon"])
def test_a_run_with_sharded_state_equals_the_unsharded_step(name):
    program = build("decoder", vocab=512, d_model=128, d_ff=256, layers=2, optimizer=name)
    plan = wb.Plan(program, "data:4 model:2").recipe("data_parallel").recipe("megatron").recipe("zero_1")
    measurement = plan.run(steps=2, check=True, profile=False)
    assert measurement.max_error <= (0.1 if name == "adam8bit" else 1e-4)  # of the largest code, of which one may round the other way
