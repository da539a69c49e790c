"""Recipes as edits: which apply where, what they say where they do not, and the bytes their sources promise."""

from functools import cache

import jax
import jax.numpy as jnp
import optax
import pytest

from workbench.analysis.analyze import analyze
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.tensor import Role
from workbench.documents import dump_plan, parse_plan
from workbench.errors import DocumentError, MeshError, RecipeError, WorkbenchError
from workbench.models import ALL_MODELS, build
from workbench.plan.edits import Constrain, Override, SetPipeline, ShardDim
from workbench.public_plan import Plan
from workbench.recipes import ALL_RECIPES, find_recipe, list_recipes
from workbench.recipes.naming_conventions import DIMS, DimUse, is_named
from workbench.recipes.recipe_list import OTHER_NAMES
from workbench.recipes.zero import SHARD_PRIORITY
from workbench.reports.report import Report
from workbench.session.plan_history import Session
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.tracing import trace_training

pytestmark = pytest.mark.compile

NAMES = [recipe.name for recipe in ALL_RECIPES]
TRAINED = {"data_parallel", "zero_2", "zero_3"}
DECODE = {"data_parallel", "zero_3", "megatron", "two_dimensional"}  # ZeRO 3 gathers weights as they are used
PREFILL = {*DECODE, "sequence_parallel", "context_parallel"}
TRANSFORMER = TRAINED | {"megatron", "sequence_parallel", "zero_1", "two_dimensional", "context_parallel"}
APPLIES = {
    "einsum": {"data_parallel"},
    "two_layer": {"data_parallel", "megatron"},
    "mnist": {*TRAINED, "megatron", "spatial"},
    "decoder": TRANSFORMER,
    "mixture": {*TRANSFORMER, "expert_parallel"},
    "t5": TRANSFORMER,
    "conformer": {*TRANSFORMER, "spatial"},  # a recording is cut along time
    "unet": {*TRAINED, "megatron", "zero_1", "spatial"},  # channels are hidden units of a pair of convolutions
    "deep_unet": {"data_parallel", "zero_2", "zero_3", "spatial"},  # SGD keeps no state; its two channels are fewer than four
    "decoder_prefill": PREFILL,
    "decoder_decode": DECODE,  # one token of a sequence is not split
    "mixture_prefill": {*PREFILL, "expert_parallel"},
    "mixture_decode": {*DECODE, "expert_parallel"},
    "gpt": TRANSFORMER,
}
"""Which recipes apply to which model of the zoo, on the mesh that has an axis for them; AmoebaNet's many small operations take too long."""


@cache
def program(name):
    return build(name)


def plan_of(name, mesh, *recipes):
    plan = Plan(program(name), mesh)
    for each in recipes:
        plan = plan.recipe(each)
    return plan


@cache
def undivided(name):
    """Every device computes all of it."""
    return Plan(program(name), "all:8").report()


def mesh_for(recipe):
    tokens = dict.fromkeys(("context_parallel", "ring_attention"), "context")
    axis = {"expert_parallel": "expert", "spatial": "spatial", **tokens}.get(recipe, "model")
    return f"data:2 {axis}:4"


def sent(report: Report, *axes: str, kind: str = "") -> int:
    """Bytes that leave each device over these axes, the few of a loss's own sum left out."""
    return sum(each.total_sent for each in report.collectives if each.axes == axes and kind in each.kind and each.payload > 64)


def payloads(report: Report, axis: str, kind: str, payload: int) -> int:
    """How often a step sends so many bytes."""
    return sum(each.count for each in report.collectives if (each.axes, each.kind, each.payload) == ((axis,), kind, payload))


def parameter_bytes(name):
    return sum(each.bytes for each in program(name).arguments if each.role is Role.PARAMETER)


@pytest.mark.parametrize("model", [each.name for each in ALL_MODELS if each.name != "amoebanet"])
def test_the_recipes_that_apply_are_those_the_model_has_dimensions_for(model):
    applying = {name for name in NAMES for row in list_recipes(plan_of(model, mesh_for(name))) if row.name == name and row.applies}
    assert applying == APPLIES[model]


def test_a_step_of_inference_has_no_gradients_to_split():
    with pytest.raises(RecipeError) as caught:
        plan_of("decoder_decode", "data:8", "zero_2")
    assert str(caught.value) == (
        "ZeRO 2 shards gradients, but `decoder decode tiny` has none.\n  Try: use ZeRO 3, which shards the weights."
    )


CASES = [(model, recipe) for model, names in APPLIES.items() for recipe in NAMES if recipe in names]


@pytest.mark.parametrize(("model", "recipe"), CASES)
def test_a_recipe_is_a_list_of_ordinary_edits_and_its_plan_an_ordinary_plan(model, recipe):
    before = plan_of(model, mesh_for(recipe))
    edits = find_recipe(recipe).edits(before)
    assert {type(edit) for edit in edits} <= {ShardDim, Override, Constrain}
    after = before
    for edit in edits:
        assert after.apply(edit) != after, f"{edit} changes nothing"
        after = after.apply(edit)
    assert after == before.recipe(recipe)
    assert after.report().flops.per_device < undivided(model).flops.per_device
    with pytest.raises(RecipeError, match="already"):
        after.recipe(recipe)


@pytest.mark.parametrize("recipe", sorted(APPLIES["mnist"]))
def test_a_plan_that_a_recipe_made_is_saved_as_any_other(recipe):
    plan = plan_of("mnist", mesh_for(recipe), recipe)
    assert parse_plan(dump_plan(plan)) == plan


@pytest.mark.parametrize("model", ["decoder", "gpt"])
def test_data_parallel_all_reduces_every_gradient(model):
    tied = 65536 if model == "gpt" else 0  # the table is looked up and is the head: two gradients
    assert sent(plan_of(model, "data:8", "data_parallel").report(), "data") == 2 * (parameter_bytes(model) + tied) * 7 // 8


@pytest.mark.parametrize("recipe", ["zero_1", "zero_2"])
def test_sharded_updates_send_what_data_parallelism_sends_and_keep_an_eighth_of_the_moments(recipe):
    weights = parameter_bytes("decoder")
    alike, sharded = (plan_of("decoder", "data:8", each).report() for each in ("data_parallel", recipe))
    assert sent(sharded, "data", kind="reduce-scatter") == sent(sharded, "data", kind="all-gather") == weights * 7 // 8
    assert sent(sharded, "data") == sent(alike, "data")
    moments = Role.OPTIMIZER_STATE
    assert sharded.memory.by_role[moments] - 4 == (alike.memory.by_role[moments] - 4) // 8  # the count of steps stays whole
    assert sharded.memory.by_role[Role.PARAMETER] == weights


def test_fully_sharded_weights_are_gathered_forward_and_backward():
    weights, once = parameter_bytes("decoder"), 2 * 65536  # the table is used forward alone, the head's two uses follow each other
    report = plan_of("decoder", "data:8", "zero_3").report()
    assert sent(report, "data", kind="all-gather") == (2 * weights - once) * 7 // 8
    assert sent(report, "data", kind="reduce-scatter") == weights * 7 // 8
    assert report.memory.by_role[Role.PARAMETER] == weights // 8


def test_megatron_all_reduces_twice_forward_and_twice_backward_a_layer():
    activation, layers = 8 * 64 * 64 * 4, 2  # float32[batch/2, seq, d_model]
    report = plan_of("decoder", "data:2 model:4", "data_parallel", "megatron").report()
    assert payloads(report, "model", "all-reduce", activation) == 4 * layers + 2  # and the lookup and the head, over the vocabulary
    assert report.flops.duplication == 1


def test_sequence_parallel_replaces_each_all_reduce_by_a_reduce_scatter_and_an_all_gather():
    activation, layers = 8 * 64 * 64 * 4, 2
    report = plan_of("decoder", "data:2 model:4", "data_parallel", "sequence_parallel").report()
    assert payloads(report, "model", "reduce-scatter", activation) == 4 * layers + 2
    assert payloads(report, "model", "all-gather", activation) == (4 + 2) * layers + 2  # two of them again in the backward pass
    assert payloads(report, "model", "all-reduce", activation) == 0


def test_sequence_parallel_tells_what_is_added_between_the_blocks_from_what_an_activation_adds_within_one():
    """`gelu` adds in the scope of the residual addition, and so does the small number under a norm's root."""

    def loss(params, batch):
        x = params["embedding"][batch["tokens"]]
        for i, layer in enumerate(params["layers"]):
            with jax.named_scope(f"layer{i}"):
                normed = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
                x = x + jax.nn.gelu(normed @ layer["up"]) @ layer["down"]
        return jnp.mean(x**2)

    layers = [{"up": jnp.ones((16, 32)), "down": jnp.ones((32, 16))} for _ in range(2)]
    params, batch = {"embedding": jnp.ones((64, 16)), "layers": layers}, {"tokens": jnp.zeros((8, 16), jnp.int32)}
    dims = {"tokens": "batch seq", "embedding": "vocab d_model", "up": "d_model d_ff"}
    plan = Plan(trace_training(loss, params, batch, optimizer=optax.sgd(0.1), dims=dims), "data:2 model:2").recipe("data_parallel")
    report = plan.recipe("sequence_parallel").report()
    assert {each.kind for each in report.collectives if "model" in each.axes} <= {"reduce-scatter", "all-gather", "all-reduce"}
    wide = [each for each in report.values if each.dims == ("batch", "seq", "d_ff") and not each.path.startswith("grad/")]
    assert wide
    assert {each.sharding.dims[1:] for each in wide} == {((), ("model",))}


@pytest.mark.parametrize("recipe", ["sequence_parallel", "two_dimensional"])
def test_the_random_numbers_of_dropout_are_no_stream_between_the_blocks(recipe):
    def loss(params, batch):
        x = params["embedding"][batch["tokens"]]
        for i, layer in enumerate(params["layers"]):
            with jax.named_scope(f"layer{i}"):
                y = jax.nn.gelu(x @ layer["up"]) @ layer["down"]
                x = x + jnp.where(jax.random.bernoulli(jax.random.fold_in(batch["key"], i), 0.9, y.shape), y, 0.0)
        return jnp.mean(x**2)

    layers = [{"up": jnp.ones((16, 32)), "down": jnp.ones((32, 16))} for _ in range(2)]
    params = {"embedding": jnp.ones((64, 16)), "layers": layers}
    batch = {"tokens": jnp.zeros((8, 16), jnp.int32), "key": jax.random.PRNGKey(0)}
    dims = {"tokens": "batch seq", "embedding": "vocab d_model", "up": "d_model d_ff"}
    plan = Plan(trace_training(loss, params, batch, optimizer=optax.sgd(0.1), dims=dims), "data:2 model:2").recipe("data_parallel")
    constrained = [pattern for pattern, _ in plan.recipe(recipe).layout.constraints]
    assert constrained
    assert not [pattern for pattern in constrained if "bernoulli" in pattern or "uniform" in pattern]


def test_two_dimensional_gathers_weights_over_one_axis_and_activations_over_the_other():
    activation, layers = 8 * 64 * 64 * 4, 2
    plan = plan_of("decoder", "data:2 model:4", "two_dimensional")
    report, settled = plan.report(), analyze(plan, answer=ask_partitioner(plan))
    assert payloads(report, "model", "reduce-scatter", activation) == 4 * layers + 2
    assert payloads(report, "model", "all-gather", activation) == (4 + 2) * layers + 2
    again = 2 * layers + 1  # for products that group the devices in another way
    assert payloads(settled, "model", "all-gather", activation) == (4 + 2) * layers + 2 + again
    matrices = sum(each.local_bytes for each in report.arguments if each.tensor.role is Role.PARAMETER and "norm" not in each.tensor.path)
    assert sent(report, "data", kind="reduce-scatter") == 2 * matrices // 2  # of halves, over two
    assert all(each.sharding.replicas(report.mesh) == 1 for each in report.arguments if each.tensor.path.endswith(("w1", "w2", "wo")))


def test_context_parallel_gathers_keys_and_values_and_scatters_their_gradients():
    keys, layers = 8 * 64 * 4 * 8 * 4, 2  # float32[batch/2, seq, kv_heads, d_head]
    report = plan_of("decoder", "data:2 context:4", "data_parallel", "context_parallel").report()
    assert payloads(report, "context", "all-gather", keys) == 4 * layers
    assert payloads(report, "context", "reduce-scatter", keys) == 2 * layers


@pytest.mark.parametrize("weights", ["int8", "float8_e4m3fn"])
def test_expert_parallel_scales_results_of_quantized_experts_where_these_are(weights):
    """Elsewhere, the results are sent in float32, and the scales of all experts with them."""
    reports = [
        Plan(build("mixture_decode", preset="tiny-top2", alternate=False, weights=kind), "expert:8").recipe("expert_parallel").report()
        for kind in ("float32", weights)
    ]
    sent = [[(each.kind, each.axes, each.payload, each.count) for each in report.collectives] for report in reports]
    assert sent[0]
    assert sent[0] == sent[1]


def test_expert_parallel_sends_tokens_to_their_experts_and_back():
    dispatched, layers = 2 * 8 * 20 * 64 * 4, 2  # float32[batch/8, experts, capacity, d_model]
    report = plan_of("mixture", "expert:8", "expert_parallel").report()
    assert payloads(report, "expert", "all-to-all", dispatched) == 4 * layers  # two forward, two backward
    experts = [each for each in report.arguments if "experts/w" in each.tensor.path]
    assert all(each.sharding.axes == ("expert",) for each in experts)


def test_spatial_exchanges_borders_and_reduces_gradients():
    report = plan_of("unet", "spatial:2", "spatial").report()
    assert sent(report, "spatial", kind="collective-permute") > 0
    assert sent(report, "spatial", kind="all-reduce") >= 2 * parameter_bytes("unet") // 2


COMPOSED = [
    ("data_parallel", "megatron", "zero_1"),
    ("data_parallel", "megatron", "zero_3"),
    ("data_parallel", "sequence_parallel", "zero_2"),
]


@pytest.mark.parametrize("recipes", COMPOSED, ids="+".join)
def test_recipes_compose(recipes):
    plan = plan_of("decoder", "data:2 model:4", *recipes)
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        if tensor.role is Role.OPTIMIZER_STATE and len(tensor.shape) > 2:
            assert sorted(sharding.axes) == ["data", "model"], tensor
            assert sharding.priority(sharding.dims.index(("data",))) == SHARD_PRIORITY
            assert sharding.priority(sharding.dims.index(("model",))) == 0


def test_the_order_of_recipes_does_not_matter_to_what_is_held_and_sent():
    one, other = (plan_of("decoder", "data:2 model:4", *order).report() for order in (("megatron", "zero_1"), ("zero_1", "megatron")))
    assert one.sent == other.sent
    assert one.memory == other.memory


def test_a_recipe_is_one_step_of_the_history():
    session = Session(plan_of("mnist", "data:4"))
    session.apply(find_recipe("zero_3").edit(session.plan))
    assert str(session.edits[0]) == "zero_3 (6 edits)"
    session.undo()
    assert session.plan == plan_of("mnist", "data:4")


def test_an_axis_that_is_named_for_nothing_is_given_by_hand():
    plan = Plan(program("decoder"), "x:2 y:4")
    with pytest.raises(RecipeError, match=r"needs a mesh axis, named `model`"):
        plan.recipe("megatron")
    assert str(plan.recipe("data_parallel", "x").recipe("megatron", "y").layout) == "batch:x; kv_heads:y; d_ff:y; vocab:y"
    assert str(Plan(program("decoder"), "all:8").recipe("data_parallel").layout) == "batch:all"  # there is but one


def test_dimensions_without_names_are_found_by_what_products_do_with_them():
    def loss(weights, batch):
        hidden = jax.nn.relu(batch["p"] @ weights["a"])
        return jnp.square(hidden @ weights["b"] - batch["q"]).mean()

    weights = {"a": jax.ShapeDtypeStruct((16, 64), jnp.float32), "b": jax.ShapeDtypeStruct((64, 8), jnp.float32)}
    batch = {"p": jax.ShapeDtypeStruct((32, 16), jnp.float32), "q": jax.ShapeDtypeStruct((32, 8), jnp.float32)}
    traced = trace_training(loss, weights, batch, optimizer=optax.sgd(0.1), dims={"p": "k i", "a": "i j", "b": "j o"})
    plan = Plan(traced, "data:4 model:2").recipe("data_parallel").recipe("megatron")
    assert str(plan.layout) == "k:data; j:model"


def test_a_vocabulary_that_does_not_divide_stays_whole_and_is_said_to():
    def loss(weights, batch):
        hidden = jax.nn.relu(jax.nn.one_hot(batch["words"], 10) @ weights["table"] @ weights["up"])
        return jnp.square(hidden @ weights["down"] @ weights["table"].T).mean()

    weights = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in (("table", (10, 8)), ("up", (8, 16)), ("down", (16, 8)))}
    names = {"table": "vocab_size hidden_size", "up": "hidden_size intermediate_size", "down": "intermediate_size hidden_size"}
    batch = {"words": jax.ShapeDtypeStruct((32,), jnp.int32)}
    traced = trace_training(loss, weights, batch, optimizer=optax.sgd(0.1), dims=names | {"words": "batch"})
    draft = find_recipe("megatron").draft(Plan(traced, "model:4"))
    assert [str(edit) for edit in draft.edits] == ["intermediate_size → model"]
    first, second = draft.notes
    assert first == "`vocab_size` (10) stays unsharded, because 10 % 4 = 2; padding to 12 would allow it"
    assert second.startswith("38% of the weight products are replicated on every device of `model` (`vocab_size`: rows of a table")


def megatron_layout(loss, weights, inputs):
    params = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in weights.items()}
    batch = {"x": jax.ShapeDtypeStruct(inputs, jnp.float32)}
    traced = trace_training(loss, params, batch, optimizer=optax.sgd(0.1))
    return str(Plan(traced, "model:2").recipe("megatron").layout)


def test_of_layers_without_names_every_other_one_is_split():
    def loss(weights, batch):
        x = batch["x"]
        for name in ("a", "b", "c", "d"):
            x = jax.nn.relu(x @ weights[name])
        return (x**2).mean()

    weights = {"a": (32, 16), "b": (16, 16), "c": (16, 16), "d": (16, 4)}
    assert megatron_layout(loss, weights, (8, 32)) == "d_ff:model"


def test_of_attention_without_names_the_heads_are_split_and_not_what_a_head_has():
    def loss(weights, batch):
        x = batch["x"]
        for _ in range(2):
            query, key, value = (jnp.einsum("bsd,dhk->bshk", x, weights[name]) for name in ("q", "k", "v"))
            scores = jax.nn.softmax(jnp.einsum("bshk,bthk->bhst", query, key))
            x = x + jnp.einsum("bshk,hkd->bsd", jnp.einsum("bhst,bthk->bshk", scores, value), weights["out"])
        return (x**2).mean()

    weights = {"q": (32, 4, 8), "k": (32, 4, 8), "v": (32, 4, 8), "out": (4, 8, 32)}
    assert megatron_layout(loss, weights, (2, 16, 32)) == "heads:model"


REFUSED = [
    (
        ("decoder", "data:2 model:4", "expert_parallel"),
        "Expert parallel shards the expert dimension, but no weight of `decoder tiny` has one; its dimensions are "
        "`vocab`, `d_model`, `layers`, "
        "`kv_heads`, `q_per_kv`, `d_head`, `qkv`, `gate_up`, `d_ff`, `batch`, `seq`.",
    ),
    (
        ("decoder", "data:2 model:8", "megatron"),
        "Megatron tensor parallel would put `kv_heads` (4) on `model` (8), and 4 % 8 = 4.",
    ),
    (
        ("mnist", "data:8", "data_parallel"),
        "Data parallel would put `batch` (100) on `data` (8), and 100 % 8 = 4.",
    ),
    (
        ("mnist", "data:4", "zero_1"),
        "ZeRO 1 shards the optimizer's state, but `mnist` has none.",
    ),
    (
        ("decoder", "data:8", "megatron"),
        "Megatron tensor parallel needs a mesh axis, named `model`, `tensor`, `tp`; the mesh has `data`.",
    ),
    (
        ("decoder", "data:8 model:1", "megatron"),
        "Megatron tensor parallel over `model` has no effect: the axis has one device.",
    ),
    (
        ("decoder", "data:8", "context_parallel"),
        "Context parallel needs a mesh axis, named `context`, `seq`, `sequence`; the mesh has `data`.",
    ),
    (
        ("gpt", "data:8", "spatial"),
        "Spatial shards spatial dimensions, but no input of `gpt tiny` has one.",
    ),
    (
        ("two_layer", "data:8", "zero_3"),
        "ZeRO 3 (fully sharded) shards the state of a training step, but `two-layer` has no parameters.",
    ),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=lambda each: " ".join(each) if isinstance(each, tuple) else "")
def test_a_recipe_that_does_not_apply_says_why_and_what_would_help(asked, message):
    model, mesh, name = asked
    with pytest.raises(RecipeError) as caught:
        plan_of(model, mesh, name)
    assert caught.value.message == message
    assert caught.value.ways_out
    row = next(row for row in list_recipes(plan_of(model, mesh)) if row.name == name)
    assert (row.applies, row.reason, row.ways_out) == (False, message, caught.value.ways_out)


def test_an_axis_that_splits_something_else_already_is_refused():
    plan = plan_of("decoder", "data:4", "data_parallel")
    with pytest.raises(RecipeError, match="which already shards `batch`") as caught:
        plan.recipe("megatron", "data")
    assert caught.value.ways_out[0] == "remove `batch` from `data`"


def test_the_axis_of_a_pipeline_is_refused():
    plan = Plan(program("decoder"), "data:4 stage:2").apply(SetPipeline(PipelineSpec(stages=2, micro_batches=4)))
    with pytest.raises(RecipeError, match="it carries the stages of the pipeline"):
        plan.recipe("megatron", "stage")


@pytest.mark.parametrize(
    ("name", "axes", "error", "said"),
    [
        ("zero_4", (), DocumentError, "There is no recipe `zero_4`"),
        ("megatron", ("modle",), MeshError, "There is no mesh axis `modle`"),
        ("megatron", ("data", "model"), RecipeError, "takes one mesh axis; given are 2: data and model"),
        ("two_dimensional", ("data", "data"), WorkbenchError, "needs two mesh axes; `data` is one"),
    ],
)
def test_what_is_not_there_is_refused_in_the_names_that_are(name, axes, error, said):
    with pytest.raises(error, match=said):
        plan_of("decoder", "data:2 model:4").recipe(name, *axes)


def test_every_recipe_says_what_it_is_and_where_it_is_from():
    assert len({recipe.name for recipe in ALL_RECIPES}) == len(ALL_RECIPES) == 12
    for recipe in ALL_RECIPES:
        assert recipe.name.isidentifier()
        assert recipe.title
        assert recipe.about
        assert recipe.source


@pytest.mark.parametrize(
    ("dim", "use"),
    [
        ("activation_batch", DimUse.BATCH),
        ("num_query_groups", DimUse.HEADS),
        ("num_attention_heads", DimUse.HEADS),
        ("intermediate_size", DimUse.HIDDEN),
        ("ffn_hidden_size", DimUse.HIDDEN),
        ("mlp", DimUse.HIDDEN),
        ("padded_vocab_size", DimUse.VOCABULARY),
        ("exp", DimUse.EXPERTS),
        ("num_local_experts", DimUse.EXPERTS),
        ("target_seq", DimUse.SEQUENCE),
        ("image_height", DimUse.SPACE),
    ],
)
def test_names_of_other_libraries_are_known(dim, use):
    assert [each for each in DIMS if is_named(dim, each)] == [use]


@pytest.mark.parametrize(
    ("name", "known"), [("fsdp", "zero_3"), ("Tensor-Parallel", "megatron"), ("DDP", "data_parallel"), ("zero1", "zero_1")]
)
def test_a_recipe_by_the_name_of_a_framework_is_answered_with_its_name_here(name, known):
    with pytest.raises(DocumentError) as caught:
        find_recipe(name)
    assert caught.value.ways_out == (f"use `{known}`, which does that",)


def test_every_other_name_is_of_a_recipe():
    assert {*OTHER_NAMES.values()} <= {each.name for each in ALL_RECIPES}


def test_the_examples_are_offered_first_for_an_unused_axis_of_data():
    report = plan_of("decoder", "data:2 model:4").recipe("megatron").report()
    unused = next(each for each in report.diagnostics if each.subject == "data")
    assert unused.edits[0] == ShardDim("batch", ("data",))
