"""The MPMD engine: a pipelined step is the unpipelined one, for every schedule, whatever is recomputed, whatever crosses the cut."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.support import pipelines
from workbench.core.precision import Precision
from workbench.core.remat import Remat
from workbench.core.schedules.schedule import Kind
from workbench.engine import execute
from workbench.engine.mpmd.against_sequential import largest_error, run_reference_step, state_slots
from workbench.engine.mpmd.aot_compile import compiled_peaks
from workbench.engine.mpmd.execute_pipeline import measure_tasks
from workbench.engine.mpmd.mpmd_step import MpmdStep, compile_mpmd
from workbench.errors import PipelineError
from workbench.models import gpt
from workbench.pipeline.estimate_stage_costs import stage_costs
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.staged_program import staged_program
from workbench.public_plan import Plan
from workbench.reports.run_events import StepDone
from workbench.tracing import trace_training
from workbench.tracing.stage_partition.stage_update import common_sums, verify_separable

pytestmark = pytest.mark.compile

TOLERANCE = 2e-6
ADAM_TOLERANCE = 1e-4  # it divides by the root of small squares


def pipelined(program, text: str, mesh: str = "", layout: str = "") -> MpmdStep:
    stages = text.split(maxsplit=1)[0].removeprefix("stages:")
    return compile_mpmd(Plan(program, mesh or f"stage:{stages}", layout, pipeline=text))


CASES = [
    ("chain", "stages:1 micro_batches:2 schedule:gpipe"),
    ("chain", "stages:2 micro_batches:1 schedule:gpipe remat:never"),
    ("chain", "stages:2 micro_batches:4 schedule:zero_bubble"),
    ("chain", "stages:2 micro_batches:2 schedule:zero_bubble remat:never"),
    ("chain", "stages:2 micro_batches:2 schedule:interleaved chunks:2 remat:except_last"),
    ("skips", "stages:2 micro_batches:4 schedule:circular chunks:2 remat:never"),
    ("masked", "stages:2 micro_batches:2 schedule:circular chunks:2"),
    ("stacked", "stages:4 micro_batches:4 schedule:1f1b"),
    ("stacked", "stages:2 micro_batches:2 schedule:breadth_first chunks:2 remat:never"),
    ("skips", "stages:4 micro_batches:2 schedule:1f1b remat:except_last"),
    ("dropout", "stages:3 micro_batches:4 schedule:1f1b"),
    ("checkpointed", "stages:2 micro_batches:2 schedule:1f1b remat:never"),
    ("checkpointed", "stages:3 micro_batches:4 schedule:zero_bubble"),
    ("batch_norm", "stages:2 micro_batches:4 schedule:1f1b remat:never"),
    ("masked", "stages:3 micro_batches:4 schedule:gpipe"),
    ("chain", "stages:3 micro_batches:4 schedule:eager_1f1b"),
    ("chain", "stages:2 micro_batches:4 schedule:zb_v chunks:2"),
    ("dropout", "stages:2 micro_batches:4 schedule:zb_v chunks:2 remat:never"),
    ("skips", "stages:2 micro_batches:8 schedule:dualpipe_v chunks:2 remat:never"),
    ("stacked", "stages:2 micro_batches:4 schedule:v_half chunks:2 remat:except_last"),
    ("masked", "stages:2 micro_batches:2 schedule:v_min chunks:2"),
    ("stacked", "stages:4 micro_batches:4 schedule:1f1b remat:first_2"),
    ("skips", "stages:2 micro_batches:2 schedule:interleaved chunks:2 remat:first_1"),
    ("dropout", "stages:3 micro_batches:4 schedule:zero_bubble remat:first_1"),
    ("chain", "stages:2 micro_batches:4 schedule:zb_v chunks:2 remat:first_1"),
]


@pytest.mark.share(5)
@pytest.mark.parametrize(("network", "pipeline"), CASES)
def test_loss_and_updated_state_are_those_of_the_unpipelined_step(network, pipeline):
    assert largest_error(pipelined(pipelines.ALL[network](), pipeline)) < TOLERANCE


def test_in_a_v_the_first_and_the_last_virtual_stage_share_their_devices_and_a_tied_table_from_step_to_step():
    """The table is sent from the first to the last after each update: on one device it is the same array, which the next update donates."""
    losses = []
    for text in ("stages:2 micro_batches:4 schedule:v_half chunks:2", "stages:2 micro_batches:4 schedule:1f1b"):
        step = pipelined(pipelines.stacked(), text)
        values = step.begin()
        step.feed(values, 0)
        losses.append([float(step.advance(values, number)) for number in range(1, 5)])
        homes = [step.stages.devices(stage).mesh.devices.flat[0].id for stage in range(step.stages.count)]
        assert homes == ([0, 1, 1, 0] if "v_half" in text else [0, 1])
    np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.mark.parametrize("network", ["chain", "stacked", "skips", "masked"])
def test_micro_batches_one_by_one_are_the_whole_batch_at_once(network):
    """What `largest_error` compares with is the step as the user wrote it."""
    program = pipelines.ALL[network]()
    loss, state = run_reference_step(program, 4)
    start = program.step.initialize(jax.random.key(0), program.step.given)
    *expected, whole = jax.jit(program.step.call)(*start, *program.step.feed(0))
    np.testing.assert_allclose(loss, whole, rtol=1e-5)
    for ours, theirs in zip(state, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_running_mean_takes_one_step_a_mini_batch_towards_the_mean_of_all_of_it():
    program = pipelines.batch_norm()
    step = pipelined(program, "stages:2 micro_batches:4")
    values = step.begin()
    step.feed(values, 0)
    step.advance(values)
    names = {program.arguments[argument].path: name for name, argument, _ in state_slots(step)}
    found = np.asarray(step.results(values)[names["params/statistics/0/mean"]])
    weights = program.step.given[0:2]
    whole = np.tanh(program.step.feed(0)[0] @ np.asarray(weights[1]) + np.asarray(weights[0])).mean(0)
    np.testing.assert_allclose(found, 0.1 * whole, rtol=1e-5)


@pytest.fixture(scope="module")
def sharded() -> MpmdStep:
    """Two pipelines side by side, each stage split over two devices besides."""
    program = pipelines.stacked().rename({})
    weights = next(each for each in program.arguments if each.path == "params/layers/w")
    layout = f"batch:data; {weights.dims[2]}:model" if weights.dims[2] not in ("", weights.dims[1]) else "batch:data"
    return pipelined(program, "stages:2 micro_batches:2 remat:except_last", "stage:2 data:2 model:2", layout)


def test_stages_are_sharded_on_their_own_devices_and_pipelines_are_data_parallel(sharded):
    assert largest_error(sharded) < TOLERANCE
    values = sharded.begin()
    sharded.feed(values, 0)
    stages = [set(sharded.stages.devices(i).mesh.devices.flat) for i in range(2)]
    assert len(stages[0] | stages[1]) == 8
    batch = next(name for name in sharded.buffer_slots.numbers if name[0] == "batch")
    array = values[sharded.buffer_slots.number(batch)]
    assert array.addressable_shards[0].data.shape[0] * 2 == array.shape[0]


@pytest.mark.share(3)
@pytest.mark.parametrize("network", pipelines.ALL)
def test_pipelines_side_by_side_add_up_their_gradients_once_a_step(network):
    step = pipelined(pipelines.ALL[network](), "stages:2 micro_batches:2", "stage:2 data:2", "batch:data")
    assert largest_error(step) < TOLERANCE
    for (kind, stage, _), task in step.stages.tasks.items():
        trained = {task.task.gives[i][1] for i, (group, _) in enumerate(task.task.gives) if group == "gradient"}
        averages = [
            param_slice in step.stages.partition.network.flat.averages
            for param_slice in step.stages.partition.virtual_stages[stage].param_slices
        ]
        assert task.split == {place for place in trained if not averages[place]}
        if network not in ("batch_norm", "masked") and kind is Kind.BACKWARD:  # these make means over the micro-batch again, of all parts
            assert "all-reduce" not in task.compiled.as_text()
    assert all("all-reduce" in sums.as_text() for sums in step.stages.compiled_sums.values())


@pytest.mark.share(12)
@pytest.mark.parametrize("schedule", ["1f1b", "zero_bubble"])
@pytest.mark.parametrize("remat", ["never", "always"])
@pytest.mark.parametrize("layers", ["dots_no_batch", "full", "full layers:1/2"])
def test_layers_computed_again_add_up_their_gradients_once_a_step_too(layers, remat, schedule):
    program = gpt.build(layers=2, seq=16, batch=8).variant(remat=Remat.parse(layers), precision=Precision())
    step = pipelined(program, f"stages:2 micro_batches:2 schedule:{schedule} remat:{remat}", "stage:2 data:2", "batch:data")
    assert largest_error(step) < ADAM_TOLERANCE
    for (kind, _, _), task in step.stages.tasks.items():
        assert task.split == {place for group, place in task.task.gives if group == "gradient"}
        assert kind is Kind.FORWARD or "all-reduce" not in task.compiled.as_text()


def test_weights_and_sums_stay_where_they_are(sharded):
    values = sharded.begin()
    sharded.feed(values, 0)
    lasting = {number for name, number in sharded.buffer_slots.numbers.items() if name[0] in ("piece", "total", "state")}
    sharded.advance(values, 0)
    assert {i for i, value in enumerate(values) if value is not None} >= lasting
    old = {i: values[i] for i in lasting}
    sharded.advance(values, 0)
    borrowed = {
        sharded.buffer_slots.number(("piece", stage, param_slice))
        for stage in range(2)
        for param_slice in sharded.stages.borrowed_params(stage)
    }
    assert all(old[i].is_deleted() for i in lasting - borrowed)  # donated: updated in place


def test_every_task_of_the_schedule_is_timed_once_and_none_overlap_on_a_device(sharded):
    values = sharded.begin()
    sharded.feed(values, 0)
    times = measure_tasks(sharded, values, 3)
    tasks = [(each.kind, each.stage, each.micro_batch) for each in times if each.kind != "update"]
    assert sorted(tasks) == sorted((task.kind.value, task.stage, task.micro_batch) for order in sharded.stages.orders for task in order)
    for device in range(2):
        own = [each for each in times if each.device == device]
        assert all(a.end <= b.start + 1e-9 for a, b in pairwise(own))


@pytest.mark.share(3)
@pytest.mark.parametrize("schedule", ["1f1b", "zero_bubble", "zb_v chunks:2"])
@pytest.mark.parametrize("remat", ["always", "never"])
def test_the_peak_of_each_stage_is_predicted_within_a_tenth_of_what_is_compiled(remat, schedule):
    """Also of the last stage of zero bubble, where most waits between the halves of backward tasks."""
    program = gpt.build(layers=2, seq=32, batch=8)
    step = pipelined(program, f"stages:2 micro_batches:2 schedule:{schedule} remat:{remat}")
    for exact_memory in (
        (False, True) if step.stages.spec.chunks == 1 else (True,)
    ):  # a sum over the blocks of a small last stage is coarser
        predicted = simulate(step.stages.spec, stage_costs(staged_program(step.plan), exact_memory=exact_memory)).peaks
        for ours, compiled in zip(predicted, compiled_peaks(step), strict=True):
            assert ours == pytest.approx(compiled, rel=0.1)


def test_a_run_measures_steps_losses_tasks_and_its_own_overhead():
    told = []
    plan = Plan(pipelines.chain(), "stage:2", pipeline="stages:2 micro_batches:2")
    found = execute(plan, steps=3, on_event=told.append, check=True, warmup=1)
    assert found.losses[0] > found.losses[-1]
    assert found.max_error < TOLERANCE
    assert found.shards_agree
    assert len(found.tasks) == 2 * 2 * 2 + 2
    assert found.task_overhead < 0.01
    assert found.predicted_seconds > 0
    assert [each.step for each in told if isinstance(each, StepDone)] == [1, 2, 3]


def clipped(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """By so small a norm that it always clips."""
    return optax.chain(optax.clip_by_global_norm(1e-2), optimizer)


CLIPPED = [
    ("chain", "stages:2 micro_batches:2 schedule:gpipe", optax.sgd(1.0)),
    ("stacked", "stages:3 micro_batches:2 remat:never", optax.sgd(1.0, momentum=0.9)),  # a tied table, and layers of one leaf on two stages
    ("masked", "stages:4 micro_batches:4", optax.sgd(1.0)),  # the last stage has no parameters, and micro-batches weigh otherwise
]


@pytest.mark.share(3)
@pytest.mark.parametrize(("network", "pipeline", "optimizer"), CLIPPED, ids=[case[0] for case in CLIPPED])
def test_gradients_are_clipped_by_the_norm_of_all_stages_together(network, pipeline, optimizer):
    program = pipelines.ALL[network](clipped(optimizer))
    step = pipelined(program, pipeline)
    assert largest_error(step) < TOLERANCE
    values, before = step.begin(), step.results(step.begin())
    step.feed(values, 0)
    step.advance(values)
    after = step.results(values)
    owned = [name for name in after if name[0] == "piece" and step.stages.owners[name[2]] == name[1]]
    moved = sum(((np.asarray(after[name]) - np.asarray(before[name])) ** 2).sum() for name in owned)
    assert np.sqrt(moved) == pytest.approx(1e-2, rel=1e-3)  # SGD by 1: what moves is what was clipped to


def test_clipping_composes_with_data_parallelism_and_sharded_stages():
    program = pipelines.stacked(clipped(optax.adam(1e-2)))
    assert largest_error(pipelined(program, "stages:2 micro_batches:2", "stage:2 data:2", "batch:data")) < TOLERANCE


REFUSED = [
    (optax.lamb(1e-2), "after another such sum"),
    (optax.chain(optax.clip_by_block_rms(0.1), optax.sgd(1.0)), "8 sums, each over the elements of some"),
    (optax.adafactor(1e-2), "reduce_"),
    (optax.chain(clipped(optax.sgd(1.0)), optax.clip_by_global_norm(1e-3)), "after another such sum"),
    (optax.apply_if_finite(optax.sgd(1.0), 3), "reduce_and"),
]


@pytest.mark.parametrize(("optimizer", "says"), REFUSED, ids=["lamb", "block rms", "adafactor", "clipped twice", "if finite"])
def test_an_optimiser_that_mixes_parameters_in_any_other_way_is_refused(optimizer, says):
    with pytest.raises(PipelineError, match="does not treat each element for itself") as error:
        common_sums(pipelines.chain(optimizer))
    assert says in error.value.message
    assert "clip by the global norm (`optax.clip_by_global_norm`), or each element" in error.value.ways_out


def telling(gradients, state, _=None):
    """Prints, and asks a table of learning rates: neither reads an element of a parameter."""
    jax.debug.print("one step")
    rate = jnp.sum(jnp.arange(4.0) * jnp.array([0.1, 0.2, 0.3, 0.4]))
    return jax.tree.map(lambda each: each * rate, gradients), state


def test_what_an_optimiser_does_beside_the_parameters_is_its_own_matter():
    assert not common_sums(pipelines.chain(optax.GradientTransformation(lambda _: (), telling))).sums


def test_elements_that_are_numbered_are_refused():
    """A stage that has some layers of a stacked parameter would number them otherwise."""

    def update(gradients, state, _=None):
        return jax.tree.map(lambda each: each * jnp.arange(each.size, dtype=each.dtype).reshape(each.shape), gradients), state

    with pytest.raises(PipelineError, match="does not treat each element for itself"):
        common_sums(pipelines.chain(optax.GradientTransformation(lambda _: (), update)))


def test_a_mean_over_all_parameters_which_a_stage_would_count_for_itself_is_refused():
    def update(gradients, state, _=None):
        count = sum(each.size for each in jax.tree.leaves(gradients))
        rms = jnp.sqrt(optax.tree.norm(gradients, squared=True) / count)
        return jax.tree.map(lambda each: each / rms, gradients), state

    program = pipelines.chain(optax.GradientTransformation(lambda _: (), update))
    with pytest.raises(PipelineError, match="counts what it sums over"):
        pipelined(program, "stages:2 micro_batches:2")


def test_a_shard_of_a_fleet_refuses_the_norm_of_parameters_that_it_has_not():
    with pytest.raises(PipelineError, match="a norm of all parameters together"):
        verify_separable(pipelines.chain(clipped(optax.sgd(1.0))))


def test_a_plan_with_a_pipeline_runs_in_a_worker_process():
    found = Plan(pipelines.skips(), "stage:2", pipeline="stages:2 micro_batches:2 schedule:zero_bubble").run(steps=2)
    assert len(found.losses) == 2
    assert {task.kind for task in found.tasks} == {"forward", "backward_input", "backward_weight", "update"}


def test_a_typed_random_key_goes_through_a_pipeline():
    def loss(params, batch):
        x = batch["x"]
        for i, weight in enumerate(params):
            with jax.named_scope(f"layer{i}"):
                x = jnp.where(jax.random.bernoulli(jax.random.fold_in(batch["key"], i), 0.9, x.shape), jnp.tanh(x @ weight), 0.0)
        return (x**2).mean()

    batch = {"x": jnp.ones((8, 8)), "key": jax.random.key(0)}
    program = trace_training(loss, [jnp.eye(8)] * 4, batch, optimizer=optax.sgd(0.1), dims={"x": "batch d"})
    step = pipelined(program, "stages:2 micro_batches:2")
    assert largest_error(step) < TOLERANCE
    assert min(compiled_peaks(step)) > 0
