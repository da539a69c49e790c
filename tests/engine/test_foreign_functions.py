"""Functions that are harder to carry or to run than others: packed weights, kernels of Pallas, `shard_map`, packages with side effects."""

import importlib

import jax
import jax.numpy as jnp
import optax
import pytest
from jax.experimental import pallas as pl
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from workbench.core.layout import Layout
from workbench.errors import EngineError, LayoutError
from workbench.public_plan import Plan
from workbench.tracing import trace, trace_training

pytestmark = [pytest.mark.compile, pytest.mark.worker]
S = jax.ShapeDtypeStruct


def packed_program():
    def forward(weights, x):
        return x @ weights["w"].astype(x.dtype)

    weights = {"w": jax.random.randint(jax.random.key(0), (64, 64), -8, 8).astype("int4")}
    return trace(forward, weights, S((16, 64), "float32"), dims={"x": "batch d_in", "w": "d_in d_out"})


@pytest.mark.parametrize("layout", ["batch:a", "batch:a; d_out:b", "w=[a, b]"])
def test_weights_of_four_bits_run_sharded_as_unsharded(layout):
    measurement = Plan(packed_program(), "a:2 b:2", layout).run(steps=2, check=True, profile=False)
    assert measurement.shards_agree
    assert measurement.max_error == pytest.approx(0, abs=1e-6)


def test_weights_of_four_bits_are_refused_under_a_layout_that_jit_does_not_read():
    plan = Plan(packed_program(), "a:2 b:2", "batch:a; d_out:b p1")
    with pytest.raises(EngineError) as caught:
        plan.run(steps=1, profile=False)
    assert caught.value.message == (
        "`weights/w: int4[d_in=64, d_out=64]` has elements smaller than a byte; on CPUs JAX runs such a step only if the "
        "layout has only rules and overrides, but this layout is: `batch:a; d_out:b p1`."
    )


def test_a_shard_map_in_the_function_is_checked_under_whole_arguments():
    mesh = AbstractMesh((4,), ("data",), (AxisType.Auto,))  # explicit without it, from JAX 0.12 on

    def loss(params, x):
        def inner(w, x):
            return jax.lax.pmean(((x @ w) ** 2).mean(), "data")

        hidden = jnp.tanh(x @ params["up"])
        return jax.shard_map(inner, mesh=mesh, in_specs=(P(), P("data")), out_specs=P())(params["down"], hidden)

    params = {"up": S((8, 16), "float32"), "down": S((16, 8), "float32")}
    program = trace_training(loss, params, S((16, 8), "float32"), optimizer=optax.sgd(0.1), dims={"batch": "batch _", "up": "_ hidden"})
    stages = []
    measurement = Plan(program, "data:4", "batch:data").run(
        2, lambda each: stages.append(getattr(each, "stage", "")), check=True, profile=False
    )
    assert "checking against whole arguments on every device" in stages
    assert measurement.max_error == pytest.approx(0, abs=1e-6)


def doubled(interpret):
    def kernel(x_ref, out_ref):
        out_ref[...] = 2 * x_ref[...]

    @jax.custom_vjp
    def double(x):
        return pl.pallas_call(kernel, out_shape=S(x.shape, x.dtype), interpret=interpret)(x)

    double.defvjp(lambda x: (double(x), None), lambda _, gradient: (2 * gradient,))

    def doubled_loss(params, x):
        return (double(x @ params["w"]) ** 2).mean()

    params = {"w": S((8, 128), "float32")}
    return trace_training(doubled_loss, params, S((16, 8), "float32"), optimizer=optax.sgd(0.1), dims={"batch": "batch _"})


def test_a_kernel_of_pallas_that_is_interpreted_is_carried_to_the_worker():
    measurement = Plan(doubled(interpret=True), "data:2", "batch:data").run(steps=2, check=True, profile=False)
    assert measurement.max_error == pytest.approx(0, abs=1e-5)


def test_a_kernel_of_pallas_that_no_cpu_runs_is_planned_and_its_run_says_what_to_do():
    plan = Plan(doubled(interpret=False), "data:2", "batch:data")
    assert plan.report().memory.peak > 0
    with pytest.raises(EngineError) as caught:
        plan.run(steps=1, profile=False)
    assert caught.value.message == "doubled_loss has a Pallas kernel, which CPUs can only interpret."
    assert caught.value.ways_out[0] == "write `pl.pallas_call(..., interpret=True)` for a run here"


@pytest.mark.cold
def test_a_package_that_needs_another_imported_first_is_loaded_in_the_worker(tmp_path, monkeypatch):
    (tmp_path / "sets_something.py").write_text("import builtins\nbuiltins.was_set = True\n")
    (tmp_path / "needs_something.py").write_text("was_set\ndef scale(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("sets_something")
    needs_something = importlib.import_module("needs_something")
    program = trace(lambda params, x: needs_something.scale(x) + params, S((), "float32"), S((8,), "float32"), dims={"x": "batch"})
    assert Plan(program, "data:2", "batch:data").run(steps=1, profile=False).shards_agree


FACTORED = optax.adafactor(1e-3)


def test_a_rule_for_a_matrix_is_none_for_the_factors_that_adafactor_keeps_of_it():
    params = {"w": S((256, 512), "float32"), "b": S((512,), "float32")}
    program = trace_training(
        lambda p, x: (x @ p["w"] + p["b"]).mean(), params, S((16, 256), "float32"), optimizer=FACTORED, dims={"w": "d_in d_out"}
    )
    plan = Plan(program, "data:2 model:2", "w=[-, model]; b=[model]")
    placed = {tensor.path: str(sharding) for tensor, sharding in zip(program.arguments, plan.argument_shardings, strict=True)}
    assert placed["params/w"] == "[-, model]"
    assert placed["params/b"] == placed["opt_state/0/v/b"] == "[model]"
    assert placed["opt_state/0/v/w"] == placed["opt_state/0/v_row/b"] == "[-]"
    assert Plan(program, "model:2", "w=[-, model]").run(steps=1, check=True, profile=False).max_error == pytest.approx(0, abs=1e-5)
    with pytest.raises(LayoutError, match="has 1 dimensions; \\[-, model\\] places 2"):
        Plan(program, "model:2", Layout("opt_state/**/w=[-, model]"))
