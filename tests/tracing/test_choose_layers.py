"""Remat for a part of the layers: what is computed stays the same, and so many layers are computed again as the policy says."""

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.extend.core import jaxprs_in_params, primitives

import workbench as wb
from tests.support.layered import stack
from tests.tracing.test_layers import flops, peak, results_of
from workbench.core.program import Program
from workbench.core.remat import Remat
from workbench.errors import PipelineError, RematError
from workbench.models import build
from workbench.pipeline.staged_program import as_spmd_program
from workbench.public_plan import Plan
from workbench.tracing.jaxpr.apply_remat_policy import Rematerialized
from workbench.tracing.jaxpr.choose_layers import SomeLayers
from workbench.tracing.stage_partition.trace_network import network_of

WIDTH = 4


def scanned(length: int, *, each: int = 1, reverse: bool = False, marked: bool = True, unroll: int = 1, keys: bool = False):
    """A loss over `length` times `each` layers, with constants, results of each iteration, carried whole numbers; perhaps random keys."""

    def layer(scale, weights, x):
        return x + scale * jnp.tanh(x @ weights)

    one = wb.layer(layer) if marked else layer

    def loss(params, batch):
        scale = params["scale"]

        def body(carry, slices):
            x, count = carry
            for number in range(each):
                with jax.named_scope("block"):
                    x = one(scale, slices["weights"][number], x)
            noise = jax.random.uniform(slices["key"], x.shape) if keys else slices["key"]
            return (x + noise, count + 1), (x.sum(), count)

        xs = {"weights": params["weights"], "key": jax.random.split(jax.random.key(3), length) if keys else jnp.arange(float(length))}
        (x, count), (sums, counts) = jax.lax.scan(body, (batch, 0), xs, reverse=reverse, unroll=unroll)
        return (x * count).mean() + (sums * (1 + counts)).sum()

    weights = jax.random.normal(jax.random.key(0), (length, each, WIDTH, WIDTH))
    return loss, {"weights": weights, "scale": jnp.float32(0.5)}, jax.random.normal(jax.random.key(1), (3, WIDTH))


def written_out(layers: int):
    """Layers outside of loops, every other one behind a call."""

    @wb.layer
    def layer(weights, x):
        return x + jnp.tanh(x @ weights)

    def loss(params, batch):
        x = batch
        for number, weights in enumerate(params["weights"]):
            x = (jax.jit(layer) if number % 2 else layer)(weights, x)
        return (x * x).mean()

    return loss, {"weights": list(jax.random.normal(jax.random.key(0), (layers, WIDTH, WIDTH)))}, jnp.ones((3, WIDTH))


def assert_same(loss, params, batch, remat: Remat) -> None:
    """Values and gradients, compiled: equal but for the rounding of what XLA fuses otherwise."""
    changed = Rematerialized(loss, remat)
    for found, known in zip(*(jax.tree.leaves(jax.jit(jax.value_and_grad(fn))(params, batch)) for fn in (changed, loss)), strict=True):
        np.testing.assert_allclose(found, known, rtol=0, atol=1e-5 * float(np.abs(known).max()))


def count_recomputing(fn, *args) -> float:
    """Layers under a checkpoint that a function runs through; loops count as often as they run."""

    def count(jaxpr) -> int:
        total = 0
        for eqn in jaxpr.eqns:
            if eqn.primitive is primitives.remat_p:
                assert not isinstance(eqn.params["policy"], SomeLayers)
                total += 1
                continue
            times = eqn.params["length"] if eqn.primitive is primitives.scan_p else 1
            total += times * sum(count(inner) for inner in jaxprs_in_params(eqn.params))
        return total

    return count(jax.make_jaxpr(fn)(*args).jaxpr)


def parts(length: int) -> list[tuple[int, int]]:
    return [(count, of) for of in range(2, length + 1) if length % of == 0 for count in range(1, of)]


@settings(max_examples=6)
@given(data=st.data())
def test_a_loop_computes_the_same_and_so_many_layers_again(data):
    length, each = data.draw(st.sampled_from((2, 3, 4, 6, 8))), data.draw(st.integers(1, 3))
    reverse, marked, unroll = data.draw(st.booleans()), data.draw(st.booleans()), data.draw(st.sampled_from((1, 2, length)))
    count, of = data.draw(st.sampled_from(parts(length)))
    loss, params, batch = scanned(length, each=each, reverse=reverse, marked=marked, unroll=unroll)
    remat = Remat(data.draw(st.sampled_from(("full", "dots_no_batch"))), layers=(count, of))
    assert_same(loss, params, batch, remat)
    layers = length * each if marked else length
    assert count_recomputing(Rematerialized(loss, remat), params, batch) == layers * count / of


def test_keys_are_sliced_layer_by_layer():
    assert_same(*scanned(4, keys=True), Remat("full", layers=(1, 2)))


@settings(max_examples=5)
@given(data=st.data())
def test_layers_written_out_are_counted_through_the_program(data):
    layers = data.draw(st.integers(1, 7))
    of = data.draw(st.integers(2, 4))
    count = data.draw(st.integers(1, of - 1))
    loss, params, batch = written_out(layers)
    assert_same(loss, params, batch, Remat("full", layers=(count, of)))
    again = sum(number % of < count for number in range(layers))
    assert count_recomputing(Rematerialized(loss, Remat("full", layers=(count, of))), params, batch) == again


def test_the_first_layers_in_the_order_of_execution_are_meant():
    """A loop that runs backwards begins with its last layer."""
    for reverse, expected in ((False, [True, False, False, True, False, False]), (True, [False, False, True, False, False, True])):
        loss, params, batch = scanned(6, reverse=reverse)
        jaxpr = jax.make_jaxpr(Rematerialized(loss, Remat("full", layers=(1, 3))))(params, batch).jaxpr
        (scan,) = (eqn for eqn in jaxpr.eqns if eqn.primitive is primitives.scan_p)
        assert (scan.params["length"], scan.params["reverse"]) == (2, reverse)
        body = scan.params["jaxpr"].jaxpr
        pieces = next(eqn for eqn in body.eqns if eqn.primitive.name == "split" and eqn.outvars[0].aval.shape[1:] == (1, WIDTH, WIDTH))
        reads = {pieces.outvars[0]: 0, pieces.outvars[1]: 1, pieces.outvars[2]: 2}
        for eqn in body.eqns:
            index = next((reads[var] for var in eqn.invars if not hasattr(var, "val") and var in reads), None)
            if eqn is not pieces and index is not None:
                reads.update(dict.fromkeys(eqn.outvars, index))
        again = {reads[var] for eqn in body.eqns if eqn.primitive is primitives.remat_p for var in eqn.invars if var in reads}
        assert again == ({expected[:3].index(True)})


def test_a_loop_whose_layers_are_no_multiple_says_what_would_be():
    loss, params, batch = scanned(6)
    program = wb.trace_training(loss, params, batch, optimizer=optax.sgd(0.1), name="six")
    with pytest.raises(RematError) as caught:
        program.variant(remat=Remat.parse("full layers:1/4"))
    assert str(caught.value) == (
        "A loop runs through 6 layers, no multiple of 4: remat `layers:M/4` is for the first M of every 4.\n"
        "  Try: write `layers:M/B` with B one of 2, 3, 6 · leave `layers` out."
    )


@pytest.mark.parametrize("scan", [True, False])
def test_memory_and_arithmetic_lie_between_those_of_none_and_of_full(scan):
    program = build("gpt", scan=scan, layers=4, seq=32, batch=8)
    texts = ("none", "full layers:1/4", "full layers:1/2", "full layers:3/4", "full")
    found = [program.variant(remat=Remat.parse(text)) for text in texts]
    memory, arithmetic = ([count(each) for each in found] for count in (peak, flops))
    layer = (arithmetic[-1] - arithmetic[0]) // 4
    assert [each - arithmetic[0] for each in arithmetic] == [layer * count for count in range(5)]
    assert memory[0] > memory[2] > memory[4]
    report = Plan(found[2], "all:1").report()
    assert report.flops.model == arithmetic[0]


@pytest.mark.share(3)
@pytest.mark.parametrize(("name", "arguments"), [("gpt", {"layers": 2, "scan": True}), ("gpt", {"layers": 2}), ("decoder", {})])
def test_a_model_of_the_zoo_trains_the_same(name, arguments):
    program = build(name, **arguments)
    changed = program.variant(remat=Remat.parse("full layers:1/2"))
    for kept, again in zip(results_of(program), results_of(changed), strict=True):
        np.testing.assert_allclose(again, kept, rtol=2e-3, atol=2e-5)


def test_a_group_of_layers_keeps_paths_and_names_and_shardings():
    program = build("gpt", scan=True, layers=4, seq=16, batch=8)
    full, half = (program.variant(remat=Remat.parse(text)) for text in ("full", "full layers:1/2"))
    assert half.arguments == full.arguments
    assert {each.path for each in full.operations} - {each.path for each in half.operations} <= {
        each.path for each in full.operations if "squeeze" in each.path or "dynamic" in each.path
    }
    sharded = [Plan(each, "data:2 model:2").recipe("megatron").report() for each in (program, half)]
    assert sharded[0].plan.layout == sharded[1].plan.layout
    sent = [{(each.kind, each.path.removeprefix("grad/")) for each in report.collectives} for report in sharded]
    assert sent[0] <= sent[1]


def test_a_loss_for_a_part_of_the_layers_can_be_sent():
    loss, params, batch = scanned(4, marked=False)
    sent = cloudpickle.loads(cloudpickle.dumps(Rematerialized(loss, Remat("full", layers=(1, 2)))))
    assert count_recomputing(sent, params, batch) == 2


@pytest.mark.parametrize("scan", [True, False])
def test_a_pipeline_takes_the_layers_one_by_one(scan):
    program = build("gpt", scan=scan, layers=4, seq=16, batch=8)
    half = program.variant(remat=Remat.parse("full layers:1/2"))
    network = network_of(half, 2)
    assert network.paths == network_of(program, 2).paths
    ends = (*network.block_starts[1:], len(network.proper))
    blocks = zip(network.paths, network.block_starts, ends, strict=True)
    again = [path for path, start, end in blocks if any(each.primitive is primitives.remat_p for each in network.proper[start:end])]
    assert again == ["layers/0", "layers/2"]


def test_a_loop_within_a_stage_is_grouped():
    """Of weights that are not parameters it stays a loop."""
    loss, params, batch = scanned(4)

    def with_derived(weights, data):
        return loss({**weights, "weights": weights["weights"] * 2.0}, data)

    program = wb.trace_training(with_derived, params, batch, optimizer=optax.sgd(0.1), name="derived", dims={"batch": "batch width"})
    network = network_of(program.variant(remat=Remat.parse("full layers:1/2")))
    assert [each.params["length"] for each in network.proper if each.primitive is primitives.scan_p] == [2]


def test_an_spmd_pipeline_needs_layers_alike():
    program = build("gpt", layers=4, seq=16, batch=8).variant(remat=Remat.parse("full layers:3/4"))
    plan = Plan(program, "stage:2 data:2", "batch:data", pipeline="stages:2 micro_batches:2 schedule:gpipe engine:spmd")
    with pytest.raises(PipelineError, match=r"remat `full layers:3/4` of `gpt.*` is for a part of them"):
        as_spmd_program(plan)


def test_layers_of_a_program_for_tests_are_chosen_under_every_policy():
    program: Program = stack()
    for text in ("save:mixed layers:1/3", "offload:hidden layers:2/3", "dots_every:2 layers:1/2"):
        changed = program.variant(remat=Remat.parse(text))
        for kept, again in zip(results_of(program), results_of(changed), strict=True):
            np.testing.assert_allclose(again, kept, rtol=2e-5, atol=1e-6)


def test_one_loop_of_one_group_is_not_merged_with_its_own_backward_pass():
    """XLA takes a loop of one iteration apart: a barrier keeps what is computed twice from being merged."""
    loss, params, batch = scanned(2)
    jaxpr = jax.make_jaxpr(Rematerialized(loss, Remat("full", layers=(1, 2))))(params, batch).jaxpr
    (scan,) = (eqn for eqn in jaxpr.eqns if eqn.primitive is primitives.scan_p)
    layers = [eqn for eqn in scan.params["jaxpr"].jaxpr.eqns if eqn.primitive is primitives.remat_p]
    assert [eqn.params["prevent_cse"] for eqn in layers] == [True]
