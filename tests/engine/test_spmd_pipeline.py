"""The SPMD engine: a step through the shifting buffer is the unpipelined one, for stages, chunks and micro-batches, beside other axes."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.support import pipelines
from workbench.core.program import Program
from workbench.engine import execute
from workbench.engine.compile.compile_in_process import compile_here
from workbench.engine.mpmd import against_sequential as mpmd_check
from workbench.engine.mpmd.against_sequential import largest_error_of, run_reference_step
from workbench.engine.spmd.compiled_step import compile_step, spmd_plan
from workbench.errors import PipelineError
from workbench.public_plan import Plan
from workbench.tracing import trace_training
from workbench.tracing.grad_accumulation.micro_batch_marks import micro_batch_weight

pytestmark = pytest.mark.compile

WIDTH, BATCH, LAYERS = 4, 12, 4


@cache
def network(*, stacked: bool) -> Program:
    """Equal layers between an embedding and a head, under a mean over an unequal mask; the mask goes to every layer too, and the
    embedding's result to the loss (a skip over all stages)."""

    def layer(weights, x, mask):
        normal = x / jnp.linalg.norm(x, axis=-1, keepdims=True)
        return x + jnp.tanh(normal @ weights["w"] + weights["b"]) * mask[:, None]

    def loss(params, batch):
        with jax.named_scope("embedding"):
            first = x = batch["x"] @ params["table"]
        with jax.named_scope("layers"):
            if stacked:
                x, _ = jax.lax.scan(lambda x, weights: (layer(weights, x, batch["mask"]), None), x, params["layers"])
            for number, weights in enumerate(() if stacked else params["layers"]):
                with jax.named_scope(str(number)):
                    x = layer(weights, x, batch["mask"])
        with jax.named_scope("loss"):
            each = ((x @ params["table"].T - first) ** 2).sum(-1) * batch["mask"]
            return each.sum() / micro_batch_weight(batch["mask"].sum())

    random = np.random.default_rng(0)
    layers = [
        {"w": (0.5 * random.standard_normal((WIDTH, WIDTH))).astype("float32"), "b": np.full(WIDTH, 0.1, "float32")} for _ in range(LAYERS)
    ]
    params = {"table": random.standard_normal((WIDTH, WIDTH)).astype("float32"), "layers": layers}
    params["layers"] = jax.tree.map(lambda *each: np.stack(each), *layers) if stacked else layers
    mask = (random.random(BATCH) < 0.6).astype("float32")
    mask[::3] = 1.0
    batch = {"x": random.standard_normal((BATCH, WIDTH)).astype("float32"), "mask": mask}
    names = {"batch/x": "batch features", "batch/mask": "batch"}
    return trace_training(loss, params, batch, optimizer=optax.sgd(1e-3, momentum=0.9), dims=names, name="equal layers")


CASES = [
    ("stages:2 micro_batches:4 schedule:gpipe", "stage:2 data:2", "", True),
    ("stages:4 micro_batches:3 schedule:gpipe remat:never", "stage:4", "", False),
    ("stages:2 micro_batches:3 schedule:circular chunks:2", "stage:2 data:2", "batch:data", True),
    ("stages:1 micro_batches:2 schedule:circular chunks:2 remat:never", "stage:1", "", True),
]


@pytest.mark.share(3)
@pytest.mark.parametrize(("pipeline", "mesh", "layout", "stacked"), CASES, ids=[case[0] for case in CASES])
def test_loss_and_updated_state_are_those_of_the_unpipelined_step(pipeline, mesh, layout, stacked):
    program = network(stacked=stacked)
    plan = Plan(program, mesh, layout, pipeline=f"{pipeline} engine:spmd")
    step = compile_step(spmd_plan(plan))
    results = step.advance(step.arguments(0), None)
    loss, state = run_reference_step(program, plan.pipeline.micro_batches)
    np.testing.assert_allclose(results[program.step.loss], loss, rtol=2e-6)
    for ours, theirs in zip(results, state, strict=False):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def test_stacked_weights_lie_over_the_stages_at_rest_and_shift_to_neighbours():
    plan = Plan(network(stacked=True), "stage:2 data:2", "batch:data", pipeline="stages:2 micro_batches:2 schedule:gpipe engine:spmd")
    step = compile_step(spmd_plan(plan))
    by_path = dict(zip((tensor.path for tensor in step.program.arguments), step.shardings, strict=True))
    assert by_path["params/layers/w"].spec[0] == "stage"
    assert by_path["opt_state/0/trace/layers/w"].spec[0] == "stage"
    assert "collective-permute" in step.compiled.as_text()


IN_STEP = "stages:2 micro_batches:2 schedule:gpipe engine:spmd"


def test_a_plan_that_says_spmd_runs_so_and_is_checked_against_the_unpipelined_step():
    plan = Plan(network(stacked=True), "stage:2 data:2", "", pipeline=IN_STEP)
    run = execute(plan, steps=2, warmup=1, profile=False, check=True)
    assert len(run.losses) == 2
    assert run.losses[1] < run.losses[0]
    assert 0 <= run.max_error < 1e-5


def test_a_check_that_one_device_cannot_hold_says_so(monkeypatch):
    monkeypatch.setattr(mpmd_check, "free_bytes", lambda _: 1000)
    said = []
    plan = Plan(network(stacked=True), "stage:2 data:2", "", pipeline=IN_STEP)
    for each in (plan, plan.updated(pipeline="stages:2 micro_batches:2")):
        run = execute(each, steps=1, warmup=0, profile=False, check=True, on_event=lambda event: said.append(getattr(event, "stage", "")))
        assert run.max_error is None
    assert sum(text.startswith("not checked: the step without a pipeline needs") for text in said) == 2


def test_what_is_compiled_is_the_pipelined_step():
    plan = Plan(network(stacked=True), "stage:2 data:2", "batch:data", pipeline=IN_STEP)
    kinds = {each.kind for each in compile_here(plan, keep=False).collectives if each.axes == ("stage",)}
    assert "collective-permute" in kinds


def test_the_first_of_equal_layers_may_read_the_batch():
    """The batch goes into the buffer as what a layer hands on."""

    def loss(params, batch):
        with jax.named_scope("layers"):
            x, _ = jax.lax.scan(lambda x, w: (jnp.tanh(x @ w) * batch["mask"][:, None], None), batch["x"], params["layers"])
        with jax.named_scope("loss"):
            return jnp.mean(x**2)

    random = np.random.default_rng(0)
    params = {"layers": random.standard_normal((LAYERS, WIDTH, WIDTH)).astype("float32")}
    batch = {"x": random.standard_normal((BATCH, WIDTH)).astype("float32"), "mask": (random.random(BATCH) < 0.6).astype("float32")}
    names = {"batch/x": "batch features", "batch/mask": "batch"}
    program = trace_training(loss, params, batch, optimizer=optax.sgd(0.1), dims=names, name="no embedding")
    step = compile_step(spmd_plan(Plan(program, "stage:4", pipeline="stages:4 micro_batches:3 schedule:gpipe engine:spmd")))
    assert largest_error_of(step, program, 3) < 2e-6


@pytest.mark.parametrize(
    ("program", "pipeline", "says"),
    [
        (lambda: network(stacked=True), "stages:3 micro_batches:3", "4 % 3 = 1"),
        (pipelines.skips, "stages:2 micro_batches:2", "use engine:mpmd"),
        (pipelines.dropout, "stages:2 micro_batches:2", "equal"),
    ],
)
def test_layers_that_are_not_equal_are_refused(program, pipeline, says):
    stages = pipeline.split()[0].removeprefix("stages:")
    plan = Plan(program(), f"stage:{stages}", "", pipeline=f"{pipeline} schedule:gpipe engine:spmd")
    with pytest.raises(PipelineError) as error:
        spmd_plan(plan)
    assert says in str(error.value)
