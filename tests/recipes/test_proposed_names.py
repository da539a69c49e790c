"""Names that a trace proposes: how they are told from the user's, names after sizes that still open, and roles of single dimensions."""

import jax
import jax.numpy as jnp
import optax
import pytest

import workbench as wb
from tests.support.styles import build_style
from workbench.core.precision import Precision
from workbench.core.remat import Remat
from workbench.errors import LayoutError
from workbench.plan.edits import Prioritize, RenameDim, ShardDim
from workbench.public_plan import Plan
from workbench.recipes import find_recipe
from workbench.recipes.choose_dims import batch_dim, expert_dims
from workbench.recipes.dim_roles import dim_roles, residual_dims, scanned_dims
from workbench.recipes.naming_conventions import DimUse

S = jax.ShapeDtypeStruct


def floats(**shapes):
    return {name: S(shape, "float32") for name, shape in shapes.items()}


def training(loss, params, batch, **more):
    return wb.trace_training(loss, floats(**params), batch, optimizer=optax.sgd(0.1), **more)


def test_names_after_sizes_still_open_in_layouts_and_edits():
    program = build_style("scanned_gpt")
    old = Plan(program, "data:2 model:4", "d8:data; d128:model p1; d32_c:model")
    assert str(old.layout) == "batch:data; d_ff:model p1; heads:model"
    assert old == Plan(program, "data:2 model:4", "batch:data; d_ff:model p1; heads:model")
    assert str(old.apply(ShardDim("d128", ())).layout) == "batch:data; heads:model"
    assert str(old.apply(ShardDim("d128", ("data", "model"))).apply(ShardDim("d8")).layout) == "d_ff:data+model p1; heads:model"
    assert str(old.apply(Prioritize("d8", 2)).layout) == "batch:data p2; d_ff:model p1; heads:model"
    renamed = old.apply(RenameDim("d128", "units"))
    assert str(renamed.layout) == "batch:data; units:model p1; heads:model"
    assert str(renamed.updated(layout="d128:model").layout) == "units:model"


def test_of_two_rules_for_what_is_one_dimension_now_the_first_counts():
    program = build_style("scanned_gpt")
    assert str(Plan(program, "data:2 model:4", "d32_b:model; d32_c:data; d8:data").layout) == "heads:model; batch:data"


def test_variants_of_a_program_have_the_same_names():
    program = build_style("scanned_gpt")
    variant = program.variant(remat=Remat("full"), precision=Precision(compute="bfloat16"))
    assert variant.dims == program.dims
    assert variant.proposed == program.proposed
    units = program.rename({"d_ff": "units"})
    assert units.variant(remat=Remat("full")).dims == units.dims
    assert units.proposed.aliases["d128"] == "units"


def test_every_proposed_name_has_a_reason_and_the_sizes_it_stands_for():
    assert str(build_style("two_headed_encoder").proposed) == (
        "`d8`: hidden units: output of one product, contracted by a later one; unsharded, because `d64`, `d64_b` in the same weights "
        "divides more work\n"
        "`d_ff` (d64, d64_b): hidden units: output of one product, contracted by a later one\n"
        "`d48`: features of the inputs\n"
        "`batch` (d16): leading dimension of the inputs"
    )
    program = build_style("residual_mlp")
    assert program.proposed.unconfirmed == ("d_model", "d_ff", "batch")
    assert repr(program).endswith("; names from use: d_model, d_ff, batch, others by `dims=` or `.rename(...)`)")
    named = program.rename({"d_ff": "units", "batch": "examples"})
    assert named.proposed.unconfirmed == ("d_model",)
    assert "`units` (d128): named by you" in str(named.proposed)


def mlp(params, batch):
    return jnp.square(jax.nn.relu(batch["x"] @ params["up"]) @ params["down"] - batch["y"]).mean()


MLP = {"up": (24, 64), "down": (64, 8)}
PAIRS = {"x": S((16, 24), "float32"), "y": S((16, 8), "float32")}


def test_the_names_of_the_user_win():
    program = training(mlp, MLP, PAIRS, dims={"x": "rows features", "up": "_ units"})
    assert list(program.dims) == ["units", "d8", "features", "rows"]
    assert program.proposed.unconfirmed == ()
    program = training(mlp, MLP, PAIRS, dims={"down": "_ batch"})
    assert {each.path: each.dims for each in program.arguments if each.path.startswith("batch")} == {
        "batch/x": ("d16", "d24"),
        "batch/y": ("d16", "batch"),
    }


def test_a_name_that_the_user_gave_to_something_else_is_numbered():
    program = training(mlp, MLP, PAIRS, dims={"x": "_ d_ff"})
    assert {each.path: each.dims for each in program.arguments}["params/up"] == ("d_ff", "d_ff_2")


def test_targets_that_nothing_connects_with_the_inputs_are_examples_too():
    def loss(params, batch):
        return (batch["x"] @ params["w"]).mean() + jnp.sort(batch["y"]).sum()

    program = training(loss, {"w": (24, 8)}, {"x": S((16, 24), "float32"), "y": S((16,), "float32"), "table": S((24,), "float32")})
    assert {each.path: each.dims for each in program.arguments[-3:]} == {
        "batch/table": ("d24_b",),
        "batch/x": ("batch", "d24"),
        "batch/y": ("batch",),
    }


def test_which_of_several_leading_dimensions_are_the_examples_is_left_open_without_parameters():
    program = wb.trace(lambda embedding, x: x @ embedding.T, S((48, 64), "float32"), S((8, 64), "float32"))
    assert [each.dims for each in program.arguments] == [("d48", "d64"), ("d8", "d64")]
    assert program.proposed.reason("d8") == "inputs have several leading dimensions; any may be the batch"
    program = wb.trace(lambda table, rows, w: jnp.tanh(rows @ table) @ w, *(S(each, "float32") for each in ((64, 32), (16, 64), (32, 8))))
    assert [each.dims for each in program.arguments] == [("d64", "d_ff"), ("batch", "d64"), ("d_ff", "d8")]


def test_an_unknown_dimension_says_how_to_name_one():
    program = training(mlp, MLP, PAIRS)
    with pytest.raises(LayoutError) as caught:
        Plan(program, "data:8", "rows:data")
    assert str(caught.value) == (
        "There is no dimension `rows`; there are `d_ff`, `d8`, `d24`, `batch`. Unnamed dimensions have names inferred from use.\n"
        '  Try: use one of these names · name them in the trace, `dims={"batch/x": "batch d24"}`.'
    )


def test_hidden_units_are_named_where_a_loop_carries_the_width_that_the_first_weight_contracts():
    def loss(params, x):
        def step(h, weights):
            up, down = weights
            return h + jax.nn.relu(h @ up) @ down, None

        return jax.lax.scan(step, x @ params["in"], (params["up"], params["down"]))[0].sum()

    program = training(loss, {"in": (24, 32), "up": (3, 32, 64), "down": (3, 64, 32)}, S((16, 24), "float32"))
    named = {each.path: each.dims for each in program.arguments}
    assert named["params/up"] == ("layers", "d_model", "d_ff")
    assert named["params/down"] == ("layers", "d_ff", "d_model")


def test_time_that_a_loop_takes_apart_is_not_the_batch():
    def loss(params, x):
        def step(h, x):
            h = jnp.tanh(x @ params["in"] + h @ params["rec"])
            return h, h

        return jax.lax.scan(step, jnp.zeros((16, 32)), x)[1].sum()

    program = training(loss, {"in": (24, 32), "rec": (32, 32)}, S((10, 16, 24), "float32"))
    assert scanned_dims(program) == {"d10"}
    assert program.arguments[-1].dims == ("d10", "batch", "d24")
    assert program.proposed.reason("batch") == "first dimension of the inputs that no weight has and no loop slices"


def test_a_gated_recurrent_state_is_no_residual_stream():
    def loss(params, x):
        h = jnp.tanh(x @ params["first"])
        for _ in range(2):
            gate = jax.nn.sigmoid(h @ params["gate"])
            h = gate * h + (1 - gate) * jnp.tanh(h @ params["new"])
        return h.sum()

    program = training(loss, {"first": (24, 32), "gate": (32, 32), "new": (32, 32)}, S((16, 24), "float32"))
    assert residual_dims(program, batch_dim(program)) == ()


def attention(x, weights, kv_heads, group, size):
    query = (x @ weights["q"]).reshape(*x.shape[:2], kv_heads, group, size)
    key, value = ((x @ weights[name]).reshape(*x.shape[:2], kv_heads, size) for name in "kv")
    scores = jax.nn.softmax(jnp.einsum("bskgh,btkh->bkgst", query, key))
    return jnp.einsum("bkgst,btkh->bskgh", scores, value).reshape(*x.shape[:2], -1) @ weights["o"]


def test_fewer_heads_of_keys_and_values_are_heads_of_their_own():
    def loss(params, x):
        return (x + attention(x, params, 2, 3, 8)).sum()

    program = training(loss, {"q": (24, 48), "k": (24, 16), "v": (24, 16), "o": (48, 24)}, S((4, 16, 24), "float32"))
    assert {each.path: each.dims for each in program.arguments if each.path.startswith("params")} == {
        "params/k": ("d_model", "kv_heads"),
        "params/o": ("heads", "d_model"),
        "params/q": ("d_model", "heads"),
        "params/v": ("d_model", "kv_heads"),
    }
    plan = Plan(program, "model:2").recipe("megatron")
    assert str(plan.layout) == "heads:model; kv_heads:model"
    assert plan.report().flops.duplication == 1


def test_experts_are_what_has_weights_of_its_own():
    def loss(params, tokens):
        x = params["table"][tokens]
        gates = jax.nn.softmax(x @ params["router"])
        hidden = jax.nn.relu(jnp.einsum("bsd,edf->besf", x, params["up"]))
        mixed = jnp.einsum("bes,bsd->bsd", jnp.moveaxis(gates, -1, 1), jnp.einsum("besf,efd->bsd", hidden, params["down"]))
        return (x + mixed).sum()

    def routed(params, tokens):
        x = params["table"][tokens]
        sent = jnp.einsum("bsd,bse->ebsd", x, jax.nn.one_hot(jnp.argmax(x @ params["router"], -1), 4))
        made = jnp.einsum("ebsf,efd->ebsd", jax.nn.relu(jnp.einsum("ebsd,edf->ebsf", sent, params["up"])), params["down"])
        return (x + made.sum(0)).sum()

    params = {"table": (64, 24), "router": (24, 4), "up": (4, 24, 96), "down": (4, 96, 24)}
    program = training(routed, params, S((8, 16), "int32"))
    assert expert_dims(program) == ("experts",)
    assert {each.path: each.dims for each in program.arguments if each.path.startswith("params")} == {
        "params/down": ("experts", "d_ff", "d_model"),
        "params/router": ("d_model", "d4_b"),
        "params/table": ("vocab", "d_model"),
        "params/up": ("experts", "d_model", "d_ff"),
    }
    dense = training(loss, params, S((8, 16), "int32"))
    assert dense.arguments[0].path == "params/down"
    assert "d_ff" in dense.arguments[0].dims


def test_a_product_with_one_hot_rows_reads_a_vocabulary():
    def loss(params, tokens):
        x = jax.nn.one_hot(tokens, 60) @ params["table"]
        return jnp.square((x + jax.nn.relu(x @ params["up"]) @ params["down"]) @ params["table"].T).mean()

    program = training(loss, {"table": (60, 24), "up": (24, 96), "down": (96, 24)}, S((8, 16), "int32"))
    assert program.arguments[1].dims == ("vocab", "d_model")
    draft = find_recipe("megatron").draft(Plan(program, "model:8"))
    assert [str(edit) for edit in draft.edits] == ["d_ff → model"]
    assert draft.notes[0] == "`vocab` (60) stays unsharded, because 60 % 8 = 4; padding to 64 would allow it"


def test_heads_that_do_not_divide_are_not_split_and_alone_refused():
    def loss(params, x):
        return (x + attention(x, params, 3, 1, 8)).sum()

    params = dict.fromkeys("qkvo", (24, 24))
    program = training(loss, params, S((4, 16, 24), "float32"))
    with pytest.raises(wb.WorkbenchError, match="over `model` has no effect: `heads` stays unsharded: it has 3 heads, and 3 % 4 = 3"):
        Plan(program, "model:4").recipe("megatron")


def test_roles_play_no_heed_to_names():
    def loss(params, batch):
        x = batch["x"] @ params["in"]
        return jnp.square(x + jax.nn.relu(x @ params["up"]) @ params["down"]).mean()

    shapes = {"in": (24, 32), "up": (32, 96), "down": (96, 32)}
    program = training(loss, shapes, {"x": PAIRS["x"]}, dims={"up": "hidden_size wide", "x": "batch _"})
    roles = dim_roles(program, "batch")
    assert roles["hidden_size"].use is DimUse.WIDTH
    assert roles["wide"].use is DimUse.HIDDEN
    assert str(Plan(program, "model:4").recipe("megatron").layout) == "wide:model"


def test_the_rows_of_a_weight_that_is_called_so_are_no_examples():
    shapes = {"left": ((64, 32), (32, 16)), "right": ((64, 32), (16, 64))}
    assert "batch" not in wb.trace(lambda w, x: w @ x, *(S(each, "float32") for each in shapes["left"])).dims
    program = wb.trace(lambda w, x: x @ w, *(S(each, "float32") for each in shapes["right"]))
    assert program.arguments[1].dims[0] == "batch"
    assert wb.trace(lambda x, w: x @ w, *(S(each, "float32") for each in shapes["left"])).arguments[0].dims[0] == "batch"
