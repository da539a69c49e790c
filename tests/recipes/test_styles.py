"""Programs in twelve styles that name no dimension: the names proposed for them, and the known layouts without a dimension named."""

from itertools import combinations

import pytest

from tests.support.styles import STYLES, build_style
from workbench.analysis.analyze import analyze
from workbench.core.tensor import Role
from workbench.public_plan import Plan
from workbench.recipes import find_recipe
from workbench.recipes.choose_dims import batch_dim
from workbench.recipes.dim_roles import residual_dims

pytestmark = [pytest.mark.compile, pytest.mark.filterwarnings("default")]  # the frameworks warn of each other

MESH = "data:2 model:4"
TRANSFORMER = {"batch": 8, "seq": 16, "d_model": 32, "d_ff": 128, "vocab": 64}
NAMES = {
    "residual_mlp": {"batch": 16, "d_model": 32, "d_ff": 128, "d24": 24, "d10": 10},
    "scanned_gpt": {**TRANSFORMER, "layers": 3, "heads": 32},
    "two_headed_encoder": {"batch": 16, "d_ff": 64, "d8": 8, "d48": 48},
    "convolutions": {"batch": 16, "d_model": 16, "d_ff": 32, "d10": 10, "d8": 8, "d8_b": 8},
    "nested_step": {"batch": 16, "d_ff": 64, "d24": 24, "d8": 8},
    "equinox_mlp": {"batch": 16, "d_ff": 64, "d64_b": 64, "d24": 24, "d10": 10},
    "equinox_transformer": {**TRANSFORMER, "heads": 32},
    "equinox_fused_attention": {**TRANSFORMER, "heads": 32, "qkv": 96, "gate_up": 128, "d_ff": 64},
    **{name: {**TRANSFORMER, "heads": 4, "d_head": 8} for name in ("nnx_transformer", "nnx_with_partitioning", "linen_transformer")},
    "haiku_mlp": {"batch": 16, "d_ff": 64, "d64_b": 64, "d24": 24, "d10": 10},
    "keras_mlp": {"batch": 16, "d_ff": 64, "d24": 24, "d10": 10},
}
KERNEL_SIZES = ("d1", "d3")  # of convolutions: `d3`, `d3_b`, ...
MEGATRON = {
    **dict.fromkeys(STYLES, "batch:data; d_ff:model"),
    **dict.fromkeys(
        ("scanned_gpt", "equinox_transformer", "nnx_transformer", "nnx_with_partitioning", "linen_transformer"),
        "batch:data; heads:model; d_ff:model; vocab:model",
    ),
    "equinox_fused_attention": "batch:data; heads:model; d_ff:model; qkv:model; gate_up:model; vocab:model",
}
RECIPES = {"batch:data": (), "data_parallel": ("data_parallel",), "megatron": ("data_parallel", "megatron"), "zero_3": ("zero_3",)}


@pytest.mark.parametrize("name", STYLES)
def test_dimensions_have_names_from_their_use(name):
    program = build_style(name)
    sizes = {dim: size for dim, (size, *_) in program.dims.items() if not (name == "convolutions" and dim.split("_")[0] in KERNEL_SIZES)}
    assert sizes == NAMES[name]
    assert all(len(each) == 1 for each in program.dims.values())


@pytest.mark.parametrize("name", STYLES)
def test_a_program_is_sharded_without_naming_a_dimension(name):
    program = build_style(name)
    assert str(Plan(program, "data:8", "batch:data").layout) == "batch:data"
    plan = Plan(program, MESH).recipe("data_parallel")
    assert str(plan.layout) == "batch:data"
    assert str(plan.recipe("megatron").layout) == MEGATRON[name]
    sharded = Plan(program, "data:8").recipe("zero_3")
    states = [each for each in sharded.report().arguments if each.tensor.role is Role.PARAMETER and each.tensor.elements % 8 == 0]
    assert any(each.sharding.axes for each in states)


def plan_of(name, recipes):
    plan = Plan(build_style(name), MESH, "batch:data" if not recipes else "")
    for recipe in recipes:
        plan = plan.recipe(recipe)
    return plan


@pytest.mark.worker
@pytest.mark.share(13)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", STYLES)
def test_the_partitioner_makes_what_was_planned_without_more_work(name, recipe):
    plan = plan_of(name, RECIPES[recipe])
    planned, partitioned = plan.report(), plan.report("partitioned")
    assert partitioned.flops.duplication <= planned.flops.duplication * 1.01


@pytest.mark.worker
@pytest.mark.share(13)
@pytest.mark.parametrize("recipe", ["megatron", "zero_3"])
@pytest.mark.parametrize("name", STYLES)
def test_a_sharded_run_equals_the_unsharded_one(name, recipe):
    measurement = plan_of(name, RECIPES[recipe]).run(steps=2, check=True, profile=False)
    assert measurement.shards_agree
    assert measurement.max_error == pytest.approx(0, abs=5e-5)


def layouts_by_hand(program):
    """All ways to put dimensions of weights on `model`, at most one of a tensor: what anybody could drag there. The width of the residual
    stream is left out, which Megatron keeps whole, and so are features of the inputs."""
    batch = batch_dim(program)
    inputs = {dim for i in program.inputs for dim in program.arguments[i].dims}
    params = [each for each in program.arguments if each.role is Role.PARAMETER]
    dims = [
        dim
        for dim in dict.fromkeys(dim for each in params for dim in each.dims)
        if dim not in inputs and dim not in residual_dims(program, batch) and all(size % 4 == 0 for size in program.dims[dim])
    ]
    for count in range(1, len(dims) + 1):
        for chosen in combinations(dims, count):
            if all(len({*each.dims} & {*chosen}) <= 1 for each in program.arguments):
                yield "; ".join(["batch:data", *(f"{dim}:model" for dim in chosen)])


@pytest.mark.parametrize("name", STYLES)
def test_megatron_repeats_no_more_work_than_the_best_layout_by_hand(name):
    program = build_style(name)
    by_recipe = analyze(plan_of(name, RECIPES["megatron"])).flops.duplication
    by_hand = {layout: analyze(Plan(program, MESH, layout)).flops.duplication for layout in layouts_by_hand(program)}
    assert by_hand
    assert by_recipe <= min(by_hand.values()) + 1e-9, min(by_hand, key=lambda layout: by_hand[layout])


def test_megatron_says_what_it_leaves_whole():
    def notes(name, mesh):
        return find_recipe("megatron").draft(Plan(build_style(name), mesh)).notes

    assert notes("nnx_transformer", "model:4") == ()
    assert notes("equinox_mlp", "model:4") == (
        "10% of the weight products are replicated on every device of `model` (`d10`: no role visible from its use; `d64_b`: hidden "
        "units: output of one product, contracted by a later one; unsharded, because `d_ff` in the same weights divides more work)",
    )
    first, second = notes("scanned_gpt", "model:8")
    assert first == "`heads` stays unsharded: it has 4 heads, and 4 % 8 = 4; heads are not sharded"
    assert second.startswith(
        "32% of the weight products are replicated on every device of `model` (`d_model`: width of the residual stream"
    )
