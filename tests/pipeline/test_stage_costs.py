"""What the pieces of a pipelined plan cost, and where they are cut."""

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.support import pipelines
from workbench.core.precision import Precision
from workbench.core.program import Program
from workbench.core.remat import Remat
from workbench.errors import PipelineError
from workbench.models import build, gpt
from workbench.pipeline import estimate_stage_costs as staged
from workbench.pipeline.estimate_block_cost import make_stage_context
from workbench.pipeline.staged_program import staged_program
from workbench.public_plan import Plan
from workbench.tracing import trace, trace_training
from workbench.tracing.stage_partition.trace_network import network_of

pytestmark = pytest.mark.compile

HARDWARE = "TPU v5e 2x2"


def block_costs(plan: Plan):
    return staged.block_costs(staged_program(plan))


def stage_costs(plan: Plan):
    return staged.stage_costs(staged_program(plan))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(gpt.build(layers=4), "stage:2 data:2", "batch:data", hardware=HARDWARE, pipeline="stages:2 micro_batches:2")


def test_equal_layers_cost_alike_and_a_piece_is_the_sum_of_its_blocks(plan):
    blocks = block_costs(plan)
    layers = [block for block in blocks if block.path.startswith("layers/")]
    assert len({(block.forward, block.work, block.at_backward.beside) for block in layers}) == 1
    pieces = stage_costs(plan)
    assert sum(piece.forward for piece in pieces) == pytest.approx(sum(block.forward for block in blocks))
    assert sum(piece.backward for piece in pieces) == pytest.approx(sum(block.work - block.forward for block in blocks))


def test_a_first_layer_that_reads_the_batch_has_no_gradient_of_its_input_and_the_others_have():
    first, *others, _ = block_costs(Plan(pipelines.chain(), "stage:2", pipeline="stages:2 micro_batches:2"))
    assert first.backward_input == 0 < first.backward_weight
    assert len({(each.backward_input, each.work) for each in others}) == 1
    assert others[0].backward_input > 0


def convolve(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def convolutions() -> Program:
    """Two of 3 x 3 over 256 channels, of pictures of 8 x 8, to which a kernel is large."""

    def loss(kernels, batch):
        x = batch["x"]
        for number, w in enumerate(kernels):
            with jax.named_scope(f"layers/{number}"):
                x = convolve(x, w)
        return (x * x).mean()

    pictures = {"x": jnp.ones((32, 8, 8, 256))}
    return trace_training(loss, [jnp.ones((3, 3, 256, 256))] * 2, pictures, optimizer=optax.sgd(0.1), dims={"batch/x": "batch _ _ _"})


def test_a_gradient_is_added_to_the_sum_for_every_micro_batch_however_small_that_is():
    """cuDNN makes a kernel's gradient; another kernel reads it and the sum, and writes the sum: three passes over 2.36 MB."""
    x, w = jax.ShapeDtypeStruct((1, 8, 8, 256), "float32"), jax.ShapeDtypeStruct((3, 3, 256, 256), "float32")

    def forward_and_backward(x, w, dy):
        made, pull = jax.vjp(convolve, x, w)
        return made, pull(dy)

    both = trace(forward_and_backward, x, w, x)
    plan = Plan(convolutions(), "stage:2", hardware="2 P40", pipeline="stages:2 micro_batches:32")
    chip = plan.hardware.chip
    passes = 3 * 9 * 256 * 256 * 4 / (chip.memory_bandwidth * chip.efficiency_of("memory"))
    added = block_costs(plan)[1].work - Plan(both, "x:1", hardware="1 P40").report().step_time.total
    assert added == pytest.approx(passes + chip.launch, rel=0.1)


def test_a_named_boundary_is_kept_and_prices_nothing_anew(plan):
    moved = plan.updated(pipeline="stages:2 micro_batches:2 boundaries:layers/1")
    assert staged.plan_starts(staged_program(moved)) == (2,)
    assert block_costs(moved) is block_costs(plan)
    assert stage_costs(moved)[0].forward < stage_costs(moved)[1].forward


def test_other_numbers_of_stages_over_like_devices_and_other_schedules_price_nothing_anew(plan):
    known = block_costs(plan)
    assert block_costs(plan.updated(pipeline="stages:2 micro_batches:2 schedule:gpipe remat:never")) is known
    more = plan.updated(mesh="stage:1 data:2", pipeline="stages:1 micro_batches:2")
    assert block_costs(more) is known  # two neighbours of a 2x2 torus, with and without another stage beside
    other = plan.updated(mesh="stage:2 data:1", layout="", pipeline="stages:2 micro_batches:2")
    assert block_costs(other) is not known
    assert block_costs(other)[1].work > known[1].work


def test_the_devices_of_a_stage_that_stand_further_apart_are_priced_anew(plan):
    """A stage's collectives share links with the other stages' where those stand in between."""
    behind = plan.updated(mesh="data:2 stage:2", axis_assignment="data:x; stage:y")
    assert block_costs(behind) == block_costs(plan)
    line = plan.updated(hardware="TPU v5e 4x1", mesh="stage:2 model:2", layout="d_ff:model", axis_assignment="stage:x(2); model:x(2)")
    apart = line.updated(mesh="model:2 stage:2", axis_assignment="model:x(2); stage:x(2)")
    assert block_costs(apart)[1].work > block_costs(line)[1].work


def test_devices_that_share_the_micro_batches_add_up_gradients_once_a_step(plan):
    """For as many micro-batches as there are; weights that are split over the same devices are scattered each time."""
    more = plan.updated(pipeline="stages:2 micro_batches:4")
    for few, many in zip(stage_costs(plan), stage_costs(more), strict=True):
        assert few.sent_update == many.sent_update != ()
        assert not {axes for (axes, kind), count in many.sent_both if count > 64}  # the loss alone
        assert few.update > 2 * few.resident / plan.hardware.chip.memory_bandwidth
    assert stage_costs(plan)[1].sent_update == (
        ((("data",), "all-reduce"), stage_costs(plan)[1].borrowed_grads),
    )  # the first has the tied table's too
    held = [each.resident for each in stage_costs(plan.updated(hardware=None))]
    scattered = stage_costs(plan.updated(hardware=None, layout="batch:data; d_model:data"))
    assert all(each.resident < 0.6 * whole for each, whole in zip(scattered, held, strict=True))
    assert sum(count for each in scattered for _, count in each.sent_update) < 0.1 * sum(each.borrowed_grads for each in stage_costs(plan))
    in_one = stage_costs(plan.updated(pipeline="stages:2 micro_batches:2 schedule:gpipe engine:spmd"))
    assert all(each.sent_update == () and each.sent_both for each in in_one)


def test_bytes_are_those_of_one_device_of_the_stage(plan):
    nowhere = plan.updated(hardware=None)  # no chip that pads to tiles
    whole = nowhere.updated(mesh="stage:2", layout="")
    for half, full in zip(stage_costs(nowhere), stage_costs(whole), strict=True):
        assert (half.resident, half.residuals * 2, half.input_activations * 2) == (full.resident, full.residuals, full.input_activations)


def named_by(dims: dict[str, str]) -> Program:
    def loss(params, batch):
        x = batch["x"]
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(f"layers/{number}"):
                x = jnp.tanh(x @ weights["up"]) @ weights["down"]
        return (x * x).mean()

    layer = {"up": jnp.ones((8, 32)), "down": jnp.ones((32, 8))}
    return trace_training(loss, {"layers": [layer] * 4}, {"x": jnp.ones((16, 8))}, optimizer=optax.adam(0.1), dims=dims)


@pytest.mark.parametrize(("by_hand", "automatic"), [("batch:data", "d16:data"), ("hidden:data", "d32:data"), ("width:data", "d8:data")])
def test_a_pipeline_costs_the_same_whoever_named_its_dimensions(by_hand, automatic):
    programs = (named_by({"x": "batch width", "up": "width hidden"}), by_hand), (named_by({}), automatic)
    pipeline = "stages:2 micro_batches:4"
    known, found = (stage_costs(Plan(program, "stage:2 data:2", layout, pipeline=pipeline)) for program, layout in programs)
    assert known == found
    whole = stage_costs(Plan(programs[0][0], "stage:2", pipeline=pipeline))
    assert all(
        cost.forward == pytest.approx(full.forward / 2, rel=0.03) for cost, full in zip(known, whole, strict=True)
    )  # but for the loss


def test_parameters_their_sums_and_adams_two_moments_are_held_once():
    program = pipelines.chain()
    costs = stage_costs(Plan(program, "stage:2", pipeline="stages:2 micro_batches:2"))
    assert sum(cost.resident for cost in costs) == 4 * program.parameters * 4  # float32: weights, sums, two moments


def test_a_skip_is_sent_to_the_stage_that_reads_it():
    program = pipelines.skips()
    plan = Plan(program, "stage:4", pipeline="stages:4 micro_batches:2")
    names = network_of(program, 2).paths
    costs = staged.partition_costs(staged_program(plan), [names.index(path) for path in ("down/1", "up/0", "up/1")])
    assert [cost.sends for cost in costs] == [((1, 64), (3, 64)), ((2, 64),), ((3, 64),), ()]


def test_more_stages_than_blocks_are_refused_with_the_blocks_that_there_are():
    with pytest.raises(PipelineError, match=r"has 5 blocks \(`layers/0`, .*\); 6 stages need as many") as error:
        stage_costs(Plan(pipelines.chain(), "stage:6", pipeline="stages:6 micro_batches:2"))
    assert "make stages 5 or less" in str(error.value)


def test_of_too_many_chunks_and_stages_both_are_to_be_fewer():
    with pytest.raises(PipelineError, match="make stages 5 or less and chunks 1"):
        stage_costs(Plan(pipelines.chain(), "stage:6", pipeline="stages:6 micro_batches:2 schedule:breadth_first chunks:6"))


def test_of_too_many_chunks_the_most_that_fit_are_offered():
    with pytest.raises(PipelineError) as error:
        stage_costs(Plan(pipelines.chain(), "stage:2", pipeline="stages:2 micro_batches:2 schedule:interleaved chunks:4"))
    assert str(error.value) == (
        "chain has 5 blocks (`layers/0`, `layers/1`, `layers/2`, `layers/3`, `loss`); "
        "2 stages x 4 chunks = 8 virtual stages need as many.\n"
        "  Try: make chunks 2 · add named scopes to its layers to get more blocks."
    )


def test_a_boundary_of_another_program_is_refused():
    with pytest.raises(PipelineError, match="no longer exists"):
        stage_costs(Plan(pipelines.chain(), "stage:2", pipeline="stages:2 micro_batches:2 boundaries:blocks/7"))


def nested(**key: str) -> Program:
    """Parameters whose paths end alike: `w` and `head/w`."""
    name = key.get("name", "w")

    def loss(params, batch):
        with jax.named_scope("first"):
            x = jnp.tanh(batch["x"] @ params[name])
        with jax.named_scope("head"):
            return jnp.mean((x @ params["head"][name] - batch["y"]) ** 2)

    params = {name: jnp.ones((4, 4)), "head": {name: jnp.ones((4, 32))}}
    batch = {"x": jnp.ones((8, 4)), "y": jnp.ones((8, 32))}
    return trace_training(loss, params, batch, optimizer=optax.adam(1e-2), dims={"batch/*": "batch ..."}, name="nested")


def test_the_optimisers_state_goes_with_its_own_parameter_where_another_path_ends_alike():
    first, head = stage_costs(Plan(nested(), "stage:2", pipeline="stages:2 micro_batches:2"))
    assert first.resident == 4 * 4 * (4 + 4 + 8)  # float32: itself, the sum of its gradients, two moments
    assert head.resident == 4 * 32 * (4 + 4 + 8)


def test_a_parameter_may_have_any_name():
    program = nested(name="w[0]")
    assert [each.resident for each in stage_costs(Plan(program, "stage:2", pipeline="stages:2 micro_batches:2"))] == [256, 2048]


def test_what_splits_the_batch_may_be_an_override_as_well_as_a_rule():
    """The plans are one: so are the pieces."""
    rule = Plan(pipelines.skips(), "stage:2 data:2", "batch:data", pipeline="stages:2 micro_batches:2")
    override = rule.updated(layout="batch/x=[data, -]; batch/y=[data, -]")
    assert override.argument_shardings == rule.argument_shardings
    assert stage_costs(override) == stage_costs(rule)
    assert stage_costs(rule.updated(layout=""))[0].sends[0][1] == 2 * stage_costs(rule)[0].sends[0][1]


def test_of_constraints_one_that_does_not_divide_a_micro_batch_takes_no_other_with_it():
    """Micro-batches of two rows: the first constraint is of whole batches only."""
    program = pipelines.chain()
    plain = Plan(program, "stage:1 data:2 model:4", pipeline="stages:1 micro_batches:4", hardware="TPU v5e 2x4")
    lies = "@layers/1/tanh=[-, model]"
    one, both = (block_costs(plain.updated(layout=layout)) for layout in (lies, f"@layers/0/tanh=[model, ?]; {lies}"))
    assert both[1] == one[1] != block_costs(plain)[1]


def test_residuals_count_as_they_are_sharded_inside_a_stage():
    """A stage with tensor parallelism keeps a part of each activation; the sum over blocks is near the whole stage as one program."""
    plan = Plan(gpt.build(layers=4), "stage:2 data:2 model:2", pipeline="stages:2 micro_batches:2 remat:never").recipe("data_parallel")
    residuals = {}
    for model in (False, True):
        laid = plan.recipe("megatron") if model else plan
        residuals[model] = [each.residuals for each in stage_costs(laid)]
        exact = [each.residuals for each in staged.stage_costs(staged_program(laid), exact_memory=True)]
        assert residuals[model] == pytest.approx(exact, rel=0.1)
    assert residuals[True][0] < 0.8 * residuals[False][0]


def test_constraints_on_layers_in_a_loop_reach_the_stages():
    """The layers of a loop have one path in the program, `layers/mlp/add`, and a numbered one each in a stage."""
    plan = Plan(gpt.build(layers=4), "stage:2 data:2 model:2", pipeline="stages:2 micro_batches:2").recipe("data_parallel")
    kinds = {
        name: {kind for each in stage_costs(laid) for (_, kind), _ in each.sent_forward}
        for name, laid in (
            ("megatron", plan.recipe("megatron")),
            ("sequence", plan.recipe("megatron").recipe("sequence_parallel", "model")),
        )
    }
    assert kinds["megatron"] == {"all-reduce"}
    assert {"reduce-scatter", "all-gather"} <= kinds["sequence"]


def test_the_first_stage_of_zero_costs_blocks_nothing():
    """Where the optimizer's state lies, no block can tell: its costs are found in the cache."""
    plan = Plan(gpt.build(layers=4), "stage:2 data:4", pipeline="stages:2 micro_batches:2").recipe("data_parallel")
    shared = plan.recipe("zero_1")
    assert make_stage_context(staged_program(plan)) == make_stage_context(staged_program(shared))
    assert make_stage_context(staged_program(plan)) != make_stage_context(staged_program(plan.recipe("zero_3")))
    whole, parts = (stage_costs(each) for each in (plan, shared))
    assert [each.forward for each in whole] == [each.forward for each in parts]
    assert all(one.resident > two.resident for one, two in zip(whole, parts, strict=True))


@pytest.mark.parametrize("remat", ["as traced", "dots_no_batch", "full"])
def test_gradients_are_summed_once_a_step_whatever_layers_compute_again(remat):
    program = gpt.build(layers=4).variant(remat=Remat.parse(remat), precision=Precision())
    plan = Plan(program, "stage:2 data:2 model:2", pipeline="stages:2 micro_batches:2").recipe("data_parallel").recipe("megatron")
    for cost in stage_costs(plan):
        of_data = {kind: size for (axes, kind), size in cost.sent_both if "data" in axes}
        assert not of_data or of_data == {"all-reduce": 4}  # the last stage's loss, one float32
        assert dict(cost.sent_update)[("data",), "all-reduce"] > 100_000


def test_of_a_model_with_checkpoints_of_its_own_gradients_are_summed_once_a_step():
    program = build("decoder", preset="megatron-22b", batch=64)
    plan = Plan(program, "stage:8 data:32 model:8", pipeline="stages:8 micro_batches:2").recipe("data_parallel").recipe("megatron")
    cost = stage_costs(plan)[1]
    assert {axes for (axes, _), _ in cost.sent_both} == {("model",)}
    weights = 48 // 8 * 12 * 6144**2 // 8  # on one device
    assert dict(cost.sent_update) == {(("data",), "all-reduce"): pytest.approx(4 * weights, rel=1e-3)}  # and the biases
