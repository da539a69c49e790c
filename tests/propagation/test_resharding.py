"""Resharding, planned: what Shardy sends between two shardings, and how it is classed. `tests/spmd/test_edges.py` has what XLA sends."""

from collections import Counter

import jax
import jax.numpy as jnp
import pytest

from tests.support.resharding import TABLE, WEIGHT_UPDATES, reproducer, resharded, weight_update
from workbench.analysis.remedies import find_intermediate_shardings
from workbench.public_plan import Plan
from workbench.reports.collective import collective_class
from workbench.reports.reshard import REMATERIALISED
from workbench.tracing import trace

AS_SHARDY = [row for row in TABLE if row[-1] != (REMATERIALISED,)]


@pytest.mark.parametrize(("before", "after", "collectives", "classes"), AS_SHARDY)
def test_what_shardy_and_xla_do_alike_is_planned_as_measured(before, after, collectives, classes):
    report = resharded(before, after).report()
    assert Counter((each.kind, each.payload // 4) for each in report.collectives) == Counter(collectives)
    edges = [each for each in report.reshards if (str(each.before), str(each.after)) == (before, after)]
    assert [each.classes for each in edges] == ([] if classes == (1,) else [classes])
    assert all(sorted((move.kind, move.payload // 4) for move in each.moves) == sorted(collectives) for each in edges)


def test_a_gather_holds_its_operand_and_its_result():
    (edge,) = [each for each in resharded("[r, -, -]", "[-, -, -]").report().reshards if each.moves]
    assert edge.temporary == 4 * (131_072 + 262_144)


def test_where_xla_gathers_whole_shardys_moves_are_planned_and_nothing_is_said():
    report = reproducer().report()
    first = report.reshards[0]
    assert (first.classes, str(first.before), str(first.after)) == ((4,), "[r, -, c]", "[-, c+r, -]")
    assert [move.kind for move in first.moves] == ["all-to-all", "all-to-all"]
    assert not any(each.kind == "involuntary full rematerialisation" for each in report.diagnostics)


def test_shardings_in_between_are_one_plain_step_from_both_sides_the_least_sent_first():
    plan = reproducer()
    assert [str(each) for each in find_intermediate_shardings(plan.report().reshards[0], plan)] == ["[r, c, -]", "[-, -, c+r]"]


def test_alike_reshards_in_a_loop_are_one_with_their_executions_counted():
    def layers(x, stack):
        return jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, stack)[0]

    program = trace(
        layers,
        jax.ShapeDtypeStruct((16, 32), "float32"),
        jax.ShapeDtypeStruct((6, 32, 32), "float32"),
        dims={"x": "batch d", "stack": "layer d e"},
    )
    reshards = Plan(program, "data:4 model:2", "batch:data; stack=[-, data, -]").report().reshards
    gathered = [each for each in reshards if each.moves and each.count == 6]
    assert [(each.moves[0].kind, each.moves[0].axes) for each in gathered] == [("all-gather", ("data",))]
    assert gathered[0].sent == 6 * gathered[0].moves[0].sent


@pytest.mark.parametrize("mesh", ["data:32 model:64", "data:64 fsdp:32 model:16"])
def test_reshardings_over_thousands_of_devices_are_planned(mesh):
    first, *_, last = (axis.partition(":")[0] for axis in mesh.split())
    gathered = resharded(f"[{first}, {last}]", "[-, -]", (8192, 8192), mesh).report().reshards
    assert [{axis for move in each.moves for axis in move.axes} for each in gathered if each.moves] == [{first, last}]
    (swapped,) = [each for each in resharded(f"[{first}, -]", f"[-, {first}]", (8192, 8192), mesh).report().reshards if each.moves]
    assert [(move.kind, move.axes) for move in swapped.moves] == [("all-to-all", (first,))]


@pytest.mark.parametrize(("layout", "arguments", "sent"), WEIGHT_UPDATES)
def test_the_volumes_of_weight_update_sharding_are_those_measured(layout, arguments, sent):
    report = weight_update(layout).report()
    assert sum(each.local_bytes for each in report.arguments) == 4 * arguments
    found: Counter[str] = Counter()
    for each in report.collectives:
        if each.payload > 4:  # the loss itself is one element
            found[collective_class(each.kind)] += each.payload // 4
    assert found == sent


def test_seconds_are_told_when_the_hardware_is():
    plan = resharded("[r, -, -]", "[-, r, -]")
    assert plan.report().reshards[0].seconds == 0
    timed = plan.updated(hardware="TPU v5e 2x4").report().reshards
    assert [each.seconds > 0 for each in timed if each.moves] == [True]


def keep(value, *spec):
    return jax.lax.with_sharding_constraint(value, jax.sharding.PartitionSpec(*spec))


def rows_and_whole(x):
    h = jnp.tanh(x)
    return keep(h, "data", None) * 2, keep(h) * 3


def columns_and_whole(x):
    h = jnp.tanh(x)
    return keep(h, None, "model") * 2, keep(h) * 3


def rows_and_whole_in_a_loop(x):
    def body(carried, _):
        return keep(carried, "data", None) * 2 + keep(keep(carried) * 3, "data", "model"), None

    return jax.lax.scan(body, x, None, length=4)[0]


@pytest.mark.parametrize("fn", [rows_and_whole, columns_and_whole, rows_and_whole_in_a_loop])
@pytest.mark.parametrize("tier", ["planned", "partitioned"])
def test_a_collective_belongs_to_one_resharding(fn, tier):
    mesh = jax.sharding.AbstractMesh((4, 2), ("data", "model"), (jax.sharding.AxisType.Auto,) * 2)
    with jax.sharding.use_abstract_mesh(mesh):
        program = trace(fn, jax.ShapeDtypeStruct((64, 64), "float32"), dims={"x": "row col"})
    report = Plan(program, "data:4 model:2", "row:data; col:model").report(tier)
    assert 0 < sum(each.sent for each in report.reshards) <= report.sent
