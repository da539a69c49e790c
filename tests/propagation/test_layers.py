"""Programs of many written-out layers are propagated through a few of them: the same shardings and reports, where that can be."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import optax
import pytest
from jax.extend.mlir import ir

import workbench as wb
from workbench.models import build
from workbench.propagation import propagate, shortened_program
from workbench.propagation.module.mlir_context import main_function
from workbench.propagation.module.operation_kinds import operations_below
from workbench.propagation.module.prepare_module import ID
from workbench.propagation.prepared_program import load_prepared
from workbench.propagation.repeated_layers import FEWEST_LAYERS, KEPT_LAYERS, find_layers

LAYERS = 14
ALIKE = (
    "",
    "batch:data",
    "batch:data; heads:model; d_ff:model; vocab:model",
    "batch:model; d_model:data",
    "d_model:model; d_ff:data; seq:data",
    "seq:data; d_head:model; d_ff:model",
    "batch:data+model; vocab:data",
    "batch:data; /params/layers/*/mlp/*=[data, model]; heads:data",
)
APART = (
    "batch:data; @embedding/add=[data, ?, model]",  # a constraint
    "d_ff:model p1; batch:data p2",  # rounds
    "batch:data; barrier[@embedding/add]",
    "batch:data; params/layers/7/mlp/w1=[data, -]",  # a layer that lies otherwise
    "batch:data; params/embedding/tokens=[?, ?]",  # an argument that propagation places
)


@pytest.fixture(scope="module")
def unrolled():
    return build("gpt", preset="tiny", scan=False, layers=LAYERS)


def told(module):
    main = main_function(module)
    lies = {op.attributes[ID].value: str(op.attributes.get("sdy.sharding")) for op in operations_below(main) if ID in op.attributes}
    return lies, str(main.attributes["arg_attrs"]), str(main.attributes["res_attrs"])


def whole(plan, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(propagate, "shorten_program", lambda _program: None)
        module = propagate.annotated_module(plan)
        with module.context, ir.Location.unknown():
            propagate.run_passes(module, ",".join(until_inserted(propagate._select_passes(plan, load_prepared(plan.program).structure))))
        return module, plan.report()


def until_inserted(passes):
    return list(passes[: passes.index(propagate._INSERT_RESHARDS)])


@pytest.mark.compile
@pytest.mark.share(2)
@pytest.mark.parametrize("layout", ALIKE)
def test_few_layers_tell_where_all_values_of_all_layers_lie(unrolled, layout, monkeypatch):
    plan = wb.Plan(unrolled, "data:4 model:2", layout)
    source = load_prepared(unrolled).module
    with source.context, ir.Location.unknown():
        short = shortened_program.shorten_program(unrolled)
        assert short.is_valid_for(plan)
        few, target = propagate._annotate_copy(short.few, plan), short.whole.clone()
        propagate.declare_mesh(target, '"data"=4, "model"=2')
        propagate.run_passes(few, ",".join(until_inserted(propagate._PASSES)))
        assert short.transfer_shardings(main_function(target), main_function(few))
    module, report = whole(plan, monkeypatch)
    assert told(target) == told(module)
    mine = plan.report()
    assert str(mine) == str(report)
    assert (mine.collectives, mine.values, mine.memory) == (report.collectives, report.values, report.memory)


@pytest.mark.parametrize("layout", APART)
def test_a_plan_that_may_tell_layers_apart_is_propagated_whole(unrolled, layout):
    assert not shortened_program.shorten_program(unrolled).is_valid_for(wb.Plan(unrolled, "data:4 model:2", layout))


def test_most_of_a_deep_program_is_left_out(unrolled):
    source = load_prepared(unrolled).module
    with source.context:
        short = shortened_program.shorten_program(unrolled)
        count, left = (len(list(operations_below(main_function(each)))) for each in (short.whole, short.few))
    assert left < count * (2 * KEPT_LAYERS + 2) / LAYERS


def test_layers_whose_neighbours_differ_after_propagation_are_not_told(unrolled):
    source = load_prepared(unrolled).module
    with source.context, ir.Location.unknown():
        short = shortened_program.shorten_program(unrolled)
        few, target = propagate._annotate_copy(short.few, wb.Plan(unrolled, "data:2 model:2", "batch:data")), short.whole.clone()
        propagate.run_passes(few, ",".join(until_inserted(propagate._PASSES)))
        ops = {op.attributes[ID].value: op for op in operations_below(main_function(few))}
        odd = next(alike[0] for alike in short.same if "sdy.sharding" in ops[alike[0]].attributes)
        del ops[odd].attributes["sdy.sharding"]
        assert short.transfer_shardings(main_function(target), main_function(few)) is None


def chain(width_of):
    """Layers `x -> tanh(x @ w)` with weights as wide as `width_of` says; a training step."""
    sizes = [8] + [width_of(i) for i in range(40)]
    params = [jax.ShapeDtypeStruct((a, b), jnp.float32) for a, b in pairwise(sizes)]

    def loss(params, batch):
        for weight in params:
            batch = jnp.sin(jnp.tanh(batch @ weight)) * 2 + 1
        return (batch**2).mean()

    return wb.trace_training(loss, params, jax.ShapeDtypeStruct((16, 8), jnp.float32), optimizer=optax.adam(1e-3))


@pytest.mark.compile
def test_a_chain_whose_widths_never_repeat_has_no_layers():
    assert shortened_program.shorten_program(chain(lambda i: 8 + 4 * i)) is None


def test_a_scanned_program_is_taken_as_it_is():
    assert shortened_program.shorten_program(build("gpt", preset="tiny")) is None


def steps(count, reach=1):
    """Kinds and operands of `count` blocks of three operations, each block read by the next, then as many backwards, then a return."""
    kinds, operands = [], []
    for i in range(count):
        at = 3 * i
        kinds += [0, 1, 2]
        operands += [[at - 1], [at, -1], [at + 1, max(at - 3 * reach + 2, -1)]]
    for i in reversed(range(count)):
        at = len(kinds)
        kinds += [3, 4]
        operands += [[at - 1, 3 * i + 1], [at]]
    return [*kinds, 5], [*operands, [len(kinds) - 1]]


def test_blocks_forward_and_backward_are_of_one_layer():
    found = find_layers(*steps(20))
    forward, backward = sorted(found.runs)
    assert (forward.period, backward.period) == (3, 2)
    assert forward.layer_step == -backward.layer_step


@pytest.mark.parametrize("count", [FEWEST_LAYERS - 2, 5])
def test_few_layers_are_not_worth_it(count):
    assert find_layers(*steps(count)) is None


def test_layers_that_reach_further_than_layers_stay_are_all_kept():
    assert find_layers(*steps(30, reach=KEPT_LAYERS - 1)) is not None
    assert find_layers(*steps(30, reach=KEPT_LAYERS + 2)) is None


def test_a_layer_that_another_part_reads_keeps_all():
    kinds, operands = steps(20)
    assert find_layers([*kinds[:-1], 6, 5], [*operands[:-1], [30], operands[-1]]) is None


def test_a_layer_that_is_wired_otherwise_keeps_all():
    kinds, operands = steps(20)
    operands[31] = [29, -1]
    assert find_layers(kinds, operands) is None
