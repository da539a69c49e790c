"""The optimizer's state in the host's memory, as it runs on virtual devices and as libtpu compiles it."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import workbench as wb
from tests.engine.test_compile import needs_libtpu
from tests.support.recorded import HOST_MEMORY
from workbench.core.offload import Offload
from workbench.core.remat import Remat
from workbench.documents import export_script
from workbench.engine.spmd.compiled_step import compile_step
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.compiled import CompiledMemory

HOST = Offload(optimizer_state=True)


def compiled_memory(record, plan):
    return CompiledMemory(**record.answer(plan, HOST_MEMORY).memory)


def losses(plan, steps=4):
    step = compile_step(plan)
    arguments = step.arguments(0)
    found = [np.asarray(step.advance(arguments, number + 1)[plan.program.step.loss]) for number in range(steps)]
    return found, [array.sharding.memory_kind for array in arguments]


@pytest.mark.compile
@pytest.mark.share(2)
@pytest.mark.parametrize("layout", ["batch:data", "batch:data; d_ff:model; vocab:model"])
def test_a_sharded_step_has_the_same_losses_and_its_state_on_the_host(layout):
    program = build("gpt", layers=2)
    (here, kinds), (there, hosted) = (losses(Plan(each, "data:4 model:2", layout)) for each in (program, program.variant(offload=HOST)))
    np.testing.assert_array_equal(here, there)
    on_host = program.variant(offload=HOST).on_host
    assert set(kinds) == {"device"}
    assert on_host
    assert [kind == "pinned_host" for kind in hosted] == [i in on_host for i in range(len(hosted))]


@pytest.mark.compile
@pytest.mark.share(2)
@pytest.mark.parametrize("scan", [True, False])
def test_a_sharded_step_has_the_same_losses_with_activations_on_the_host(scan):
    program = build("gpt", layers=2, scan=scan)
    plans = [
        Plan(program.variant(remat=Remat(each)), "data:4 model:2", "batch:data; d_ff:model") for each in ("none", "offload_dots_no_batch")
    ]
    (kept, _), (hosted, _) = map(losses, plans)
    np.testing.assert_allclose(kept, hosted, rtol=1e-5)


@pytest.mark.compile
def test_the_script_keeps_the_state_there_too(capsys):
    plan = Plan(build("gpt", layers=1).variant(offload=HOST), "data:4", "batch:data")
    script = export_script(plan, steps=2)
    assert 'program.variant(offload=Offload.parse("optimizer_state"))' in script
    scope: dict[str, object] = {}
    exec(compile(script.replace("jax.config.update", "# "), "script", "exec"), scope)
    assert {array.sharding.memory_kind for i, array in enumerate(scope["values"]) if i in plan.program.on_host} == {"pinned_host"}
    assert [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()] == pytest.approx(
        [float(each) for each in losses(plan, 2)[0]], abs=1e-5
    )


@needs_libtpu
@pytest.mark.compile
def test_libtpu_has_the_state_on_the_host_and_as_much_less_on_the_device(record):
    def loss(params, batch):
        for weight in params:
            batch = jnp.tanh(batch @ weight)
        return (batch**2).mean()

    weights = [jax.ShapeDtypeStruct((2048, 2048), jnp.float32)] * 8
    batch = jax.ShapeDtypeStruct((65536, 2048), jnp.float32)
    program = wb.trace_training(loss, weights, batch, optimizer=optax.adam(1e-3), dims={"batch": "batch in"})
    plans = [Plan(each, "data:8", "batch:data", hardware="TPU v5e 2x4") for each in (program, program.variant(offload=HOST))]
    (here, there), (planned, moved) = [compiled_memory(record, each) for each in plans], [each.report().memory for each in plans]
    moments = 2 * 8 * 2048 * 2048 * 4
    assert (here.host, there.host, planned.host, moved.host) == (0, moments, 0, moments)
    assert here.arguments - there.arguments == moments
    assert here.peak - there.peak >= 0.95 * moments
    assert planned.peak - moved.peak >= moments
    assert moved.peak == pytest.approx(there.peak, rel=0.05)


@needs_libtpu
@pytest.mark.compile
def test_libtpu_has_the_activations_of_scanned_layers_on_the_host(record):
    @wb.layer
    def layer(x, weights):
        return x + jnp.tanh(x @ weights[0]) @ weights[1]

    def loss(params, batch):
        x, _ = jax.lax.scan(lambda x, weights: (layer(x, weights), None), batch, params)
        return (x**2).mean()

    weights = tuple(jax.ShapeDtypeStruct((8, 2048, 2048), jnp.bfloat16) for _ in range(2))
    batch = jax.ShapeDtypeStruct((65536, 2048), jnp.bfloat16)
    program = wb.trace_training(loss, weights, batch, optimizer=optax.sgd(1e-3), dims={"batch": "batch in"})
    names = ("dots_no_batch", "offload_dots_no_batch")
    plans = [Plan(program.variant(remat=Remat(each)), "data:8", "batch:data", hardware="TPU v5e 2x4") for each in names]
    (here, there), (planned, moved) = [compiled_memory(record, each) for each in plans], [each.report().memory for each in plans]
    assert there.host == moved.host > 0 == here.host == planned.host
    for compiled, plan in (
        (here, planned),
        (there, moved),
    ):  # `peak` of a compiled loop is too low: buffers that share memory end too early
        assert plan.peak == pytest.approx(compiled.stated_peak, rel=0.01)
