"""What users of GSPMD complain of about propagation, each with its thread: what the workbench says then, and what it suggests."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import checkify
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from workbench.analysis.conflict_remedies import resolving_edits
from workbench.core.sharding import Sharding
from workbench.errors import LayoutError, TraceError
from workbench.plan.edits import Constrain
from workbench.public_plan import Plan
from workbench.reports.propagation_records import USED_ON_OTHER_DIM
from workbench.reports.report import Report
from workbench.tracing import trace


def reported(function, shapes, mesh: str, layout: str) -> Report:
    return Plan(trace(function, *(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)), mesh, layout).report()


def test_a_vocabulary_that_does_not_divide_is_not_silently_replicated():
    """jax#26946: GPT-2's 50,257 words over 2 devices came out whole, without a word."""
    with pytest.raises(LayoutError) as raised:
        reported(lambda embedding, x: x @ embedding.T, [(50257, 64), (8, 64)], "data:4 model:2", "d50257:model")
    assert "50257 % 2 = 1" in str(raised.value)
    assert "pad `d50257` to 50258" in str(raised.value)


def test_the_gradient_accumulation_reshape_is_seen_to_split_the_wrong_dimension():
    """xla#13306, xla#19166: the batch is split 8 ways and reshaped to 4 micro-batches of 16; the axis goes to the micro-batches first."""

    def step(x, w):
        return jnp.einsum("mbd,df->mbf", x.reshape(4, 16, 8), w).sum(0)

    report = reported(step, [(64, 8), (8, 8)], "data:8", "x=[data, -]")
    replay = report.propagation
    number = replay.find("reshape")[0]
    assert str(replay.values[number].sharding) == "[data:(1)4, data:(4)2, -]"
    assert "`data:(1)4` is from `x=[data, -]` on x" in report.explain("reshape", 0)
    mended = report.plan.apply(Constrain("reshape", Sharding.parse("[-, data, -]"))).report()
    assert "data already splits dimension 1" in mended.explain("reshape")
    assert str(next(each for each in mended.values if each.path == "dot_general").sharding) == "[-, data, -]"
    assert mended.collectives  # what it costs is not hidden


def test_an_axis_lost_in_a_reshape_is_missed_where_it_was_lost():
    """xla#13306: a reshape joins dimensions, and an axis on the minor one is lost; the explanation says which operation dropped it."""
    report = reported(lambda x: x.reshape(64, 8) * 2, [(8, 8, 8)], "data:8", "x=[-, data, -]")
    assert str(report.propagation.values[report.propagation.find("reshape")[0]].sharding) == "[-, -]"
    assert "`data`, `x=[-, data, -]` on x, over reshape" in report.explain("reshape", 0)
    assert "only a minor part of this dimension" in report.explain("reshape", 0)


def test_an_explicit_mesh_that_breaks_with_sharding_constraint_is_told_as_such():
    """equinox#738, equinox#921, jax#15788: `jax.make_mesh` is explicit by default, and `with_sharding_constraint` then is an assertion."""
    mesh = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)

    def function(x):
        return jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, PartitionSpec("data", None)))

    with pytest.raises(TraceError, match="can only refer to Auto axes of the mesh"):
        trace(function, jax.ShapeDtypeStruct((16, 8), jnp.float32))


def test_the_shardings_inside_a_shard_map_are_seen():
    """jax#23936: `inspect_array_sharding` shows nothing inside `shard_map`; here its values are listed, with what came from where."""
    mesh = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def function(x, w):
        specs = {"in_specs": (PartitionSpec("data"), PartitionSpec(None)), "out_specs": PartitionSpec("data"), "axis_names": {"data"}}
        return jax.shard_map(lambda a, b: jnp.tanh(a @ b), mesh=mesh, check_vma=False, **specs)(x, w) + 1

    report = reported(function, [(16, 32), (32, 64)], "data:4 model:2", "w=[-, model]")
    inside = next(each for each in report.values if each.path == "tanh")
    assert (inside.shape, str(inside.sharding), inside.local_shape) == ((4, 64), "[-, model]", (4, 32))
    assert "`model` is from `w=[-, model]` on w" in report.explain("tanh")
    replay = report.propagation
    outside = replay.find("add")[-1]
    assert replay.axis(outside, 0, "data").origin.kind == "shard_map"


def test_the_shardings_inside_checkify_are_seen():
    """jax#26889: a checked function's values cannot be inspected under jit."""

    def checked(x, w):
        y = x @ w
        checkify.check(jnp.all(y > 0), "negative")
        return jnp.tanh(y)

    report = reported(checkify.checkify(checked), [(16, 32), (32, 64)], "data:4 model:2", "args_0=[data, -]; args_1=[-, model]")
    assert "sharded as [data, model]" in report.explain("tanh")
    assert "`model` is from `args_1=[-, model]` on args_1" in report.explain("tanh", 1)


def test_weights_split_over_the_batch_axis_that_take_it_from_the_batch_are_found_and_mended():
    """jax#25010 and alike: with fully sharded weights, the activations came out split on features and the batch whole, on every device."""

    def step(embedding, onehot, w):
        return jnp.tanh(onehot @ embedding) @ w

    report = reported(step, [(64, 32), (16, 64), (32, 8)], "data:4", "d32:data; d16:data")
    conflict = next(each for each in report.propagation.conflicts if "batch:data" in (each.loser.statement, each.winner.statement))
    assert conflict.reason == USED_ON_OTHER_DIM
    edits = resolving_edits(report, conflict)
    assert edits
    for edit in edits:
        after = report.plan.apply(edit).report().propagation
        site = after.values[conflict.first.wanted.value]
        assert conflict.first.wanted.axis in (site.sharding.dims[conflict.first.wanted.dim] or ())
