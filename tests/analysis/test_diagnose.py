"""Warnings are data in the report, with edits that fix them."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from workbench.analysis.analyze import analyze
from workbench.errors import LayoutError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.tracing import trace


def test_an_unused_axis_is_told_with_edits_that_use_it():
    plan = Plan(build("two_layer"), "rows:2 cols:4", "batch:rows")
    note = next(each for each in plan.report().diagnostics if each.kind == "unused axis")
    assert note.subject == "cols"
    for edit in note.edits:
        assert not any(each.kind == "unused axis" for each in plan.apply(edit).report().diagnostics)
    assert note.edits


def test_duplicated_work_is_told_with_its_arithmetic():
    notes = Plan(build("two_layer"), "rows:2 cols:4", "batch:rows").report().diagnostics
    assert "4.00 times" in next(each.message for each in notes if each.kind == "duplicated work")


def test_a_loop_of_unknown_length_is_told():
    program = trace(lambda x: jax.lax.while_loop(lambda s: s.sum() < 100, lambda s: s * 2, x), jax.ShapeDtypeStruct((8,), jnp.float32))
    assert [each.kind for each in Plan(program, "x:1").report().diagnostics] == ["unknown trip count"]


def halved(x):
    return jax.lax.while_loop(lambda s: (s[1].sum() > 1) & (s[0] < 30), lambda s: (s[0] + 1, s[1] @ s[1]), (0, x))[1]


def test_a_loop_that_data_may_end_is_counted_once_though_it_has_a_bound():
    report = Plan(trace(halved, jax.ShapeDtypeStruct((8, 8), jnp.float32)), "x:1").report()
    (note,) = report.diagnostics
    way_out = note.message.partition("`")[2].partition("`")[0]
    assert (note.kind, way_out[:23]) == ("unknown trip count", "turns[test_diagnose.py:")
    assert report.flops.unique == 2 * 8**3
    stated = report.plan.updated(layout=way_out).report()
    assert (stated.flops.unique, stated.diagnostics) == (8 * 2 * 8**3, ())


def test_turns_of_a_loop_that_counts_itself_change_nothing_and_that_is_told():
    program = trace(lambda x: jax.lax.fori_loop(0, 5, lambda _, s: s @ s, x), jax.ShapeDtypeStruct((8, 8), jnp.float32))
    report = Plan(program, "x:1", "turns[while]=9").report()
    assert [each.kind for each in report.diagnostics] == ["known trip count"]
    assert report.flops.unique == 5 * 2 * 8**3


def test_turns_of_no_loop_are_refused():
    program = trace(halved, jax.ShapeDtypeStruct((8, 8), jnp.float32))
    with pytest.raises(LayoutError, match=r"There is no loop `solve`; there are `test_diagnose.py:\d+`"):
        Plan(program, "x:1", "turns[solve]=9")


def test_a_plan_that_uses_everything_has_nothing_to_mind():
    assert Plan(build("two_layer"), "rows:2 cols:4", "batch:rows; hidden:cols").report().diagnostics == ()


def test_what_xla_sends_by_itself_is_counted():
    program = trace(lambda x: (x[1:], jnp.cumsum(x, 1)), jax.ShapeDtypeStruct((16, 8), jnp.float32), dims={"x": "row column"})
    notes = Plan(program, "m:8", "row:m").report().diagnostics
    assert notes == ()


def test_every_branch_of_a_cond_is_counted_and_told():
    program = trace(lambda x: jax.lax.cond(x.sum() > 0, lambda y: y @ y, lambda y: y, x), jax.ShapeDtypeStruct((8, 8), jnp.float32))
    assert [each.kind for each in Plan(program, "x:1").report().diagnostics] == ["branches"]


def test_a_mesh_that_does_not_fit_the_hardware_is_told_and_not_raised():
    def misfits(mesh: str, hardware: str, axis_assignment: str | None = None):
        plan = Plan(build("two_layer"), mesh, "batch:rows; hidden:cols", hardware=hardware, axis_assignment=axis_assignment)
        return plan, [each for each in plan.report().diagnostics if each.kind == "hardware too small"]

    assert misfits("rows:2 cols:4", "TPU v5e 2x4")[1] == []
    _, (too_large,) = misfits("rows:2 cols:4", "TPU v5e 2x2")
    assert too_large.message == "The mesh needs `rows` 2 x `cols` 4 = 8 devices; TPU v5e 2x2 has 4. Try: make `cols` 2."
    plan, (misplaced,) = misfits("rows:2 cols:4", "TPU v5e 2x4", "cols:x")
    assert "`cols` 4 devices are assigned to `x`" in misplaced.message
    assert [each.kind for each in plan.apply(misplaced.edits[0]).report().diagnostics if each.kind == "hardware too small"] == []


def test_a_constraint_that_leaves_values_of_another_rank_alone_says_which():
    def function(x, w):
        with jax.named_scope("block"):
            y = jnp.tanh(x @ w)
            return jnp.tanh(y.sum(1) @ w)

    program = trace(function, jnp.ones((8, 4, 16)), jnp.ones((16, 16)))
    found = Plan(program, "data:4", "@block/dot_general=[data, -, -]").report().diagnostics
    note = next(each for each in found if each.kind == "named besides")
    assert "1 of the 2 values that `block/dot_general` matches in the forward pass do not have the 3 dimensions" in note.message
    by_line = note.message.rpartition("`@")[2].partition("=...`")[0]
    again = Plan(program, "data:4", f"@{by_line}=[data, -, -]").report().diagnostics
    assert "named besides" not in [each.kind for each in again]


def test_an_override_of_the_optimisers_state_that_leaves_tensors_of_another_rank_alone_says_which():
    """The count of steps cannot be split, and is not reported."""

    def notes(layout):
        return [
            each for each in Plan(build("gpt"), "data:2 model:4", f"batch:data; {layout}").report().notes if each.kind == "named besides"
        ]

    (note,) = notes("opt_state/**=[data]")
    assert note.subject == "opt_state/**"
    assert note.message == (
        "20 of the 23 tensors that `opt_state/**` names are not of rank 1, so `opt_state/**=[data]` does not apply to them: "
        "`opt_state/0/mu/embedding/positions` of rank 2, `opt_state/0/mu/embedding/tokens` of rank 2, `opt_state/0/mu/layers/attention/wk` "
        "of rank 4 and 17 more. Try: one statement per rank, with a pattern that matches only those tensors."
    )
    assert notes("opt_state/**/norm/scale=[data]; opt_state/**/embedding/*=[data, -]") == []
    assert notes("embedding/tokens=[data, -]") == []


def test_what_a_shard_map_sends_is_planned():
    def function(x):
        mesh = AbstractMesh((8,), ("x",), axis_types=(AxisType.Auto,))
        return jax.shard_map(lambda rows: jax.lax.psum(rows * 2, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())(x)

    plan = Plan(trace(function, jax.ShapeDtypeStruct((64, 32), "float32"), dims={"x": "n d"}), "x:8", "n:x")
    planned, settled = plan.report(), analyze(plan, answer=ask_partitioner(plan))
    assert planned.diagnostics == settled.diagnostics == ()
    assert planned.by_axis_and_kind == settled.by_axis_and_kind == {(("x",), "all-reduce"): 64 // 8 * 32 * 4}


def rematerialized(x):
    """The gradient through a `jax.checkpoint`: what it computes again reads its input through an `optimization_barrier`."""
    return jax.grad(lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x).sum())(x)


PASSING_ON = {
    "jax.checkpoint": rematerialized,
    "barrier of several values": lambda x: jax.lax.optimization_barrier((x, x.sum(1)))[0] + 1,
    "reduce_precision": lambda x: jax.lax.reduce_precision(x, 5, 10) + 1,
    "copy": lambda x: jnp.array(x, copy=True) + 1,
    "layout": lambda x: with_layout_constraint(x, Layout(major_to_minor=(0, 1))) + 1,
    "while": lambda x: jax.lax.fori_loop(0, 3, lambda _, x: x * 2, x),
    "cond": lambda x: jax.lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x + 1, x),
}


@pytest.mark.parametrize("fn", PASSING_ON.values(), ids=list(PASSING_ON))
def test_what_passes_a_value_on_passes_its_sharding_on_and_is_no_flaw(fn):
    report = Plan(trace(fn, jax.ShapeDtypeStruct((16, 8), jnp.float32), dims={"x": "row column"}), "a:4 b:2", "row:a; column:b").report()
    assert "no sharding rule" not in {each.kind for each in report.diagnostics}
    assert str(report.results[0].sharding) == "[a, b]"


def test_a_step_with_rematerialisation_has_nothing_to_mind():
    assert Plan(build("gpt", remat=True), "data:8", "batch:data").report().diagnostics == ()


def test_what_has_no_rule_is_told_beside_a_barrier():
    """The factors of a matrix (LU), which JAX leaves to the compiler of TPUs whole."""

    def factors(x):
        return rematerialized(jax.scipy.linalg.lu_factor(x)[0])

    program = trace(factors, jax.ShapeDtypeStruct((8, 8, 8), jnp.float32), dims={"x": "batch row column"})
    report = Plan(program, "a:4", "row:a", hardware="TPU v5e 2x2").report()
    notes = [each.message for each in report.diagnostics if each.kind == "no sharding rule"]
    assert [note.partition(":")[0] for note in notes] == ["Shardy has no rule for `custom_call`, in 1 place"]


@pytest.mark.parametrize("shift", [1, -1, 3])
def test_a_roll_is_a_permute_and_pads_nothing(shift):
    """XLA's partitioner knows it: no note that its slices are uneven, nor that it is not counted."""
    program = trace(lambda x: jnp.roll(x, shift, axis=0), jax.ShapeDtypeStruct((8, 32), jnp.float32), dims={"x": "n d"})
    plan = Plan(program, "x:8", "n:x")
    planned, settled = plan.report(), analyze(plan, answer=ask_partitioner(plan))
    assert planned.diagnostics == settled.diagnostics == planned.padding == ()
    assert planned.by_axis_and_kind == settled.by_axis_and_kind == {(("x",), "collective-permute"): 32 * 4}


def test_what_only_looks_like_a_roll_is_noted():
    program = trace(lambda x: jnp.concatenate([x[1:], x[1:2]]), jax.ShapeDtypeStruct((8, 32), jnp.float32), dims={"x": "n d"})
    assert [each.kind for each in Plan(program, "x:8", "n:x").report().diagnostics] == ["padding", "not counted"]


def scan_layers(x, w):
    return jax.lax.scan(lambda carried, layer: (jnp.tanh(carried @ layer), None), x, w)[0]


def scan_steps(x, w):
    """Over the values themselves, layers of one at a time."""
    return jax.lax.scan(lambda carried, row: (carried * 0.9 + row @ w[0], carried), x[0] @ w[0], x)[1]


def train_layers(x, w):
    return jax.grad(lambda each: jnp.mean(scan_layers(x, each) ** 2))(w)


@pytest.mark.parametrize(
    ("fn", "layout", "named"), [(scan_layers, "layer:x", "w"), (train_layers, "layer:x", "w"), (scan_steps, "row:x", "x")]
)
def test_a_stack_split_along_its_layers_is_told_with_an_edit_that_gathers_a_slice(fn, layout, named):
    specs = jax.ShapeDtypeStruct((16, 16), jnp.float32), jax.ShapeDtypeStruct((8, 16, 16), jnp.float32)
    plan = Plan(trace(fn, *specs, dims={"x": "row width", "w": "layer width out"}), "x:8", layout)
    notes = [each for each in plan.report().diagnostics if each.kind == "split stack"]
    assert [each.subject for each in notes] == [named]
    assert f"XLA gathers the whole stack, {'8.00 KiB' if named == 'w' else '1.00 KiB'} on each device" in notes[0].message
    (edit,) = notes[0].edits
    assert "split stack" not in {each.kind for each in plan.apply(edit).report().diagnostics}
    assert "split stack" not in {each.kind for each in plan.updated(layout="out:x").report().diagnostics}
