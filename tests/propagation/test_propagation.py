"""The replay of a propagation and its explanations: the published examples, conflicts, what a slider shows."""

import json

import jax
import jax.numpy as jnp
import pytest

from workbench.analysis.conflict_remedies import resolves, resolving_edits
from workbench.cli.main import main
from workbench.core.program import Program
from workbench.core.sharding import Sharding
from workbench.models import build
from workbench.plan.edits import Constrain, ShardDim
from workbench.plan.propagation_edits import Prioritize
from workbench.public_plan import Plan
from workbench.reports.propagation import Propagation, PropagationError
from workbench.reports.propagation_records import BACKWARD, BLOCKED_BY_OTHER_TENSOR, DIFFERENT_ORDER, FORWARD, MINOR, USED_ON_OTHER_DIM
from workbench.reports.report import Report
from workbench.tracing import trace


def traced(function, *shapes: tuple[int, ...]) -> Program:
    return trace(function, *(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes))


def reported(function, shapes, mesh: str, layout: str) -> Report:
    return Plan(traced(function, *shapes), mesh, layout).report()


def lies(replay: Propagation, path: str) -> str:
    return str(replay.values[replay.find(path)[0]].sharding)


def lost(replay: Propagation, path: str) -> set[tuple[str, int, str]]:
    return {(rejected.wanted.axis, rejected.wanted.dim, rejected.reason) for rejected in replay.rejections(replay.find(path)[0])}


@pytest.fixture(scope="module")
def y12() -> Report:
    """The example of Shardy's propagation page: three tensors, three factors, the longest compatible major axes win (Y12)."""
    layout = "x=[a?, ?, f?]; y=[a+b?, c+d?, g?]; result=[?, c+e?, ?]"
    return reported(lambda x, y: x + y, [(64, 64, 64)] * 2, "a:2 b:2 c:2 d:2 e:2 f:2 g:2", layout)


@pytest.fixture(scope="module")
def fought() -> Report:
    """A GPT whose weights are split on `data` over `d_model` as well: it takes `data` from the batch."""
    return Plan(build("gpt", scan=True), "data:4 model:2", "batch:data; heads:model; d_ff:model; vocab:model; d_model:data").report()


@pytest.fixture(scope="module")
def megatron() -> Report:
    return Plan(build("gpt", scan=True), "data:4 model:2", "batch:data; heads:model; d_ff:model; vocab:model").report()


def test_the_published_propagation_example(y12):
    replay = y12.propagation
    assert lies(replay, "x") == "[a+b, c, f]"
    assert lies(replay, "y") == "[a+b, c+d, g]"
    assert lies(replay, "add") == "[a+b, c+e, -]"
    assert ("d", 1, DIFFERENT_ORDER) in lost(replay, "add")
    assert ("g", 2, DIFFERENT_ORDER) in lost(replay, "x")
    assert {("f", 2, BLOCKED_BY_OTHER_TENSOR), ("g", 2, BLOCKED_BY_OTHER_TENSOR)} <= lost(replay, "add")


def test_an_axis_comes_backward_from_what_is_asked_of_a_result(y12):
    replay = y12.propagation
    told = replay.axis(replay.find("add")[0], 1, "e")
    assert (told.origin.kind, told.origin.statement) == ("result", "result=[?, c+e?, ?]")
    assert [move.direction for move in told.path] == [BACKWARD]


def test_an_axis_comes_across_from_the_other_operand(y12):
    told = y12.propagation.axis(y12.propagation.find("x")[0], 0, "b")
    assert (told.origin.path, [move.direction for move in told.path]) == ("y", ["across"])


def test_a_reshape_hands_on_parts_of_an_axis_and_not_the_minor_one():
    """Y10: `8x4 -> 2x16` is `((ij),k)->(i,(jk))`, i=2, j=4, k=4; `x` of 4 fills i and half of j, so that `y` on k would leave gaps."""
    replay = reported(lambda x: x.reshape(2, 16), [(8, 4)], "x:4 y:2", "x=[x, y]").propagation
    number = replay.find("reshape")[0]
    assert str(replay.values[number].sharding) == "[x:(1)2, x:(2)2]"
    assert replay.axis(number, 1, "x:(2)2").origin.statement == "x=[x, y]"
    assert lost(replay, "reshape") == {("y", 1, MINOR)}


def test_a_merging_reshape_keeps_the_major_axis():
    replay = reported(lambda x: x.reshape(8, 32), [(2, 4, 32)], "x:2 y:4", "x=[x, y, -]").propagation
    assert lies(replay, "reshape") == "[x+y, -]"


def test_the_published_reshard_example_names_both_sides():
    """Y19: lhs `[{x},{y}]`, rhs `[{y},{x}]`, result `[{x},{}]`: `x` of the right side loses against that of the result."""
    report = reported(lambda a, b: a @ b, [(8, 32), (32, 16)], "x:4 y:2", "a=[x, y]; b=[y, x]; result=[x, -]")
    replay = report.propagation
    assert lies(replay, "dot_general") == "[x, -]"
    [rejected] = replay.rejections(replay.find("dot_general")[0])
    assert (rejected.reason, rejected.wanted.axis, rejected.origin.path, rejected.rival_origin.path) == (
        USED_ON_OTHER_DIM,
        "x",
        "b",
        "result",
    )
    assert report.reshards


def block(x, wq, wk, wv, wo, w_in, w_out):
    q, k, v = (jnp.einsum("bsm,mnd->bsnd", x, w) for w in (wq, wk, wv))
    scores = jax.nn.softmax(jnp.einsum("bsnd,btnd->bnst", q, k))
    x = x + jnp.einsum("bsnd,ndm->bsm", jnp.einsum("bnst,btnd->bsnd", scores, v), wo)
    return x + jnp.einsum("bsh,hm->bsm", jax.nn.relu(jnp.einsum("bsm,mh->bsh", x, w_in)), w_out)


BLOCK = [(8, 16, 32), *[(32, 4, 8)] * 3, (4, 8, 32), (32, 128), (128, 32)]
TWO_DIMENSIONAL = "x=[X, -, Y]; wq=[X, Y, -]; wk=[X, Y, -]; wv=[X, Y, -]; wo=[Y, -, X]; w_in=[X, Y]; w_out=[Y, X]"


def test_a_transformer_block_from_seven_annotations():
    """The finalised two-dimensional sharding of GSPMD's table 1: `M,H -> [X,Y]`, `H,M -> [Y,X]`, `BSM` and `BSH -> [X,_,Y]`."""
    replay = reported(block, BLOCK, "X:4 Y:2", TWO_DIMENSIONAL).propagation
    shardings = {(site.path, site.shape): str(site.sharding) for site in replay.values}
    assert shardings["relu/max", (8, 16, 128)] == "[X, -, Y]"  # BSH
    assert shardings["add", (8, 16, 32)] == "[X, -, Y]"  # BSM
    assert shardings["sub", (8, 4, 16, 16)] == "[X, Y, -, -]"  # BNST
    hidden = replay.find("relu/max")[0]
    assert (replay.axis(hidden, 0, "X").origin.path, replay.axis(hidden, 2, "Y").origin.path) == ("x", "w_in")


def test_a_transformer_block_from_two_annotations():
    """Left open, the weights follow: two of seven tensors are annotated, and the hidden layer lies as with all seven."""
    opened = "wq=[?, ?, ?]; wk=[?, ?, ?]; wv=[?, ?, ?]; wo=[?, ?, ?]; w_out=[?, ?]"
    replay = reported(block, BLOCK, "X:4 Y:2", f"x=[X, -, -]; w_in=[-, Y]; {opened}").propagation
    assert lies(replay, "relu/max") == "[X, -, Y]"
    assert lies(replay, "w_out") == "[Y, -]"
    assert replay.axis(replay.find("w_out")[0], 0, "Y").origin.path == "w_in"


def test_the_replay_starts_with_what_was_written_and_ends_as_propagated(megatron):
    replay = megatron.propagation
    first, last = replay.at(0), replay.at(len(replay.steps))
    assert last == tuple(site.sharding for site in replay.values)
    assert str(first[replay.find("batch/tokens")[0]]) == "[data, -]"
    assert not first[replay.find("mlp/up/dot_general")[0]].axes
    with pytest.raises(PropagationError, match="is out of range"):
        replay.at(len(replay.steps) + 1)


def test_one_step_further_changes_what_the_step_says_and_nothing_else(megatron):
    replay = megatron.propagation
    for step in (1, 2, len(replay.steps) // 2, len(replay.steps)):
        before, after, changes = replay.at(step - 1), replay.at(step), replay.changes(step)
        assert changes == {number: now for number, (then, now) in enumerate(zip(before, after, strict=True)) if then != now}


def test_the_values_of_the_report_and_the_nodes_of_the_graph_are_found_in_the_replay(megatron):
    replay = megatron.propagation
    for each in (*megatron.values, *megatron.graph.nodes):
        number = replay.number(each.path, "input" if getattr(each, "is_input", False) else each.kind, each.shape, each.sharding)
        assert number is not None, each
        assert replay.values[number].computed == each.sharding


def test_a_conflict_has_two_sides_and_edits_that_decide_it_the_other_way(fought):
    replay = fought.propagation
    conflict = next(each for each in replay.conflicts if each.loser.statement == "batch:data")
    assert (conflict.winner.statement, conflict.winner.axis, conflict.reason) == ("d_model:data", "data", USED_ON_OTHER_DIM)
    edits = resolving_edits(fought, conflict)
    assert {type(edit) for edit in edits} >= {Prioritize, Constrain, ShardDim}
    assert all(resolves(fought.plan, replay, edit, conflict.first) for edit in edits)
    assert not resolves(fought.plan, replay, ShardDim("d_ff", ()), conflict.first)


def test_a_priority_decides_and_the_explanation_says_so(fought):
    after = fought.plan.apply(Prioritize("d_model", 1)).report()
    assert lies(after.propagation, "embedding/dot_general").startswith("[data")
    assert "priority 0 precedes 1" in after.explain("/embedding/dot_general", "d_model")


def test_a_layout_without_conflicts_says_so(megatron):
    assert megatron.explain().startswith("No conflict: in ")


def test_the_explanation_of_a_value_in_words():
    report = reported(lambda x, w: jnp.tanh(x @ w), [(16, 32), (32, 64)], "data:4 model:2", "x=[data, -]; w=[-, model]; @tanh=[?, data]")
    text = report.explain("dot_general").replace(report.propagation.values[2].source, "mlp.py:7")
    assert text == (
        "dot_general: dot_general [batch=16, d64=64], mlp.py:7, sharded as [-, data]\n"
        "  batch (16): whole\n"
        "    rejected: `data`, `x=[data, -]` on x, over dot_general (mlp.py:7): "
        "data already splits d64 of dot_general, by `@tanh=[?, data]`\n"
        "  d64 (64): data\n"
        "    `data` is from `@tanh=[?, data]`\n"
        "      step 2, backward: data from d64 of tanh after its constraint to d64 of tanh (sharding_constraint, mlp.py:7)\n"
        "      step 3, backward: data from d64 of tanh to d64 of dot_general (tanh, mlp.py:7)\n"
        "    rejected: `model`, `w=[-, model]` on w, over dot_general (mlp.py:7): "
        "data is there, and major axes must agree, by `@tanh=[?, data]`"
    )


def test_an_argument_a_result_one_dimension_and_a_source_line_can_be_asked_about(megatron):
    assert "`batch:data` on batch/tokens" in megatron.explain("batch/tokens", 0)
    assert "d_ff (256)" not in megatron.explain("params/layers/mlp/w1", "d_model")
    line = megatron.propagation.values[megatron.propagation.find("mlp/up/dot_general")[0]].source
    assert "mlp/up/dot_general" in megatron.explain(line)
    with pytest.raises(PropagationError, match="There is no dimension `d_f` of `params/layers/mlp/w1`"):
        megatron.explain("params/layers/mlp/w1", "d_f")
    with pytest.raises(PropagationError, match="There is no value `mlp/uq`"):
        megatron.explain("mlp/uq")


def test_of_a_line_without_values_the_lines_that_have_some_are_told_the_nearest_first(megatron):
    lines = {site.source for site in megatron.propagation.values if site.role == "value" and not site.path.startswith("grad/")}
    file, _, number = min(lines - {""}, key=lambda line: int(line.rpartition(":")[2])).rpartition(":")
    with pytest.raises(PropagationError) as error:
        megatron.explain(f"{file}:1")
    assert error.value.message.startswith(f"There is no line with an intermediate value `{file}:1`; there are `{file}:{number}`, `{file}:")
    assert error.value.ways_out == (f"the nearest is `{file}:{number}`",)


def test_the_text_of_the_replay_has_every_move(megatron):
    lines = str(megatron.propagation).splitlines()
    assert sum(line.startswith("step ") for line in lines) == len(megatron.propagation.axis_propagations)
    assert sum(line.startswith("by hand: ") for line in lines) > 0


def test_the_axis_of_an_explanation_must_be_there(megatron):
    with pytest.raises(PropagationError, match="`pipe` does not split dimension 0"):
        megatron.propagation.axis(megatron.propagation.find("batch/tokens")[0], 0, "pipe")


def test_the_functions_own_constraint_is_an_origin_with_its_line():
    from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

    mesh = AbstractMesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    def function(a, b):
        return jnp.tanh(jax.lax.with_sharding_constraint(a @ b, NamedSharding(mesh, PartitionSpec("x", None))))

    replay = reported(function, [(16, 32), (32, 64)], "x:2 y:4", "").propagation
    origin = replay.axis(replay.find("tanh")[0], 0, "x").origin
    assert (origin.kind, origin.statement) == ("own constraint", "with_sharding_constraint")
    assert origin.source.startswith("test_propagation.py:")


def test_what_a_group_ties_lies_alike_and_says_why():
    replay = reported(lambda a, b: (jnp.tanh(a), jnp.exp(b)), [(8, 8), (8, 8)], "x:2", "a=[x, -]; b=[-, -]; group[@tanh, @exp]").propagation
    assert lies(replay, "exp") == "[x, -]"
    told = replay.axis(replay.find("exp")[0], 0, "x")
    assert told.origin.path == "a"
    assert [move.kind for move in told.path] == ["tanh", "sharding group"]


def test_every_result_of_several_gets_its_axes_from_what_is_returned():
    replay = reported(lambda a: (jnp.tanh(a), jnp.exp(a)), [(8, 8)], "x:2", "a=[x, -]").propagation
    for path in ("result/0", "result/1"):
        told = replay.axis(replay.find(path)[0], 0, "x")
        assert (told.origin.path, told.path[-1].kind) == ("a", "return")


SCRIPT = ["explain", "--model", "gpt", "-a", "scan=true", "--mesh", "data:4 model:2", "--layout", "batch:data; d_ff:model; heads:model"]


def test_the_command_line_explains_lists_and_replays(capsys):
    main([*SCRIPT, "mlp/up/dot_general"])
    assert "`d_ff:model` on params/layers/mlp/w1" in capsys.readouterr().out
    main([*SCRIPT, "mlp/up/dot_general", "--json"])
    [first, *_] = json.loads(capsys.readouterr().out)
    assert first["dims"][2]["axes"][0]["origin"]["statement"] == "d_ff:model"
    main([*SCRIPT, "--fewest"])
    assert "3 statements instead of 3" in capsys.readouterr().out


def test_every_layer_of_the_direction_of_a_move_is_told(megatron):
    assert {move.direction for move in megatron.propagation.axis_propagations} == {FORWARD, BACKWARD, "across"}


def test_an_unsplit_plan_has_nothing_to_replay():
    report = reported(lambda x: x + 1, [(8,)], "x:2", "")
    assert report.propagation.steps == ()
    assert str(report.propagation.at(0)[0]) == str(Sharding.whole(1))


def crowded(x, w):
    with jax.named_scope("block"):
        for _ in range(2):
            x = jnp.tanh(x @ w)
        y = jnp.tanh(x.sum(1) @ w)
        x = jnp.tanh(x @ w) * y[:, None]
        z = jnp.tanh(x @ w)
        return jnp.tanh(z @ w) @ w


def test_what_else_a_name_means_is_told_by_names_that_are_accepted():
    found = reported(crowded, ((8, 4, 16), (16, 16)), "data:4", "d8:data")
    told = found.explain("block/dot_general").splitlines()[-1]
    assert told.startswith("`block/dot_general` also names `test_propagation.py:")
    for name in told.split("`")[3::2]:
        assert len({found.propagation.values[number].source for number in found.propagation.find(name)}) == 1


def test_where_else_an_axis_could_come_from_is_told_once_a_statement(megatron):
    lines = [line for line in megatron.explain("mlp/up/dot_general").splitlines() if "could still come from" in line]
    assert lines
    for line in lines:
        statements = line.partition("from ")[2].split("`")[1::2]
        assert len(statements) == len(set(statements))
