"""Remat and precision of a traced program: the same step, other values kept, other types computed in."""

import pickle
from collections.abc import Callable
from functools import cache, partial

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import workbench as wb
from tests.support.importable import forward, regression
from tests.support.layered import stack
from workbench.core.precision import Precision
from workbench.core.program import Program
from workbench.core.remat import Remat
from workbench.core.tensor import Role
from workbench.errors import PrecisionError, RematError, TraceError
from workbench.models import build
from workbench.public_plan import Plan

pytestmark = pytest.mark.compile

POLICIES = (
    *("none", "full", "dots", "dots_no_batch", "offload_dots_no_batch", "save:mixed", "save:mixed+hidden"),
    *("offload:hidden", "save:mixed offload:hidden", "recompute:scores", "recompute:scores+mix", "recompute:layers/1"),
    *("dots_every:2", "dots_every:2 save:scores", "dots_every:3 offload:mixed"),
)
GPT = {"layers": 2, "seq": 16, "batch": 8}
GPT_POLICIES = (
    "none",
    "full",
    "dots",
    "dots_no_batch",
    "offload_dots_no_batch",
    "save:mixed+mlp_hidden",
    "offload:mlp_hidden",
    "recompute:scores+mix",
    "dots_every:2",
)


def results_of(program: Program) -> list:
    """One step from the program's own beginning."""
    arguments: list = [None] * len(program.arguments)
    state = jax.jit(program.step.initialize)(jax.random.key(0), program.step.given)
    for place, value in (*zip(program.state, state, strict=True), *zip(program.inputs, program.step.feed(0), strict=True)):
        arguments[place] = value
    return [np.asarray(each, np.float32) for each in jax.jit(program.step.call)(*arguments)]


@cache
def transformer(*, scan: bool) -> Program:
    return build("gpt", scan=scan, **GPT)


@cache
def results_as_traced(make: Callable[[], Program]) -> list:
    return results_of(make())


def peak(program: Program) -> int:
    return Plan(program, "all:1").report().memory.by_role[Role.ACTIVATION]


def flops(program: Program) -> int:
    return Plan(program, "all:1").report().flops.unique


def variant(program: Program, remat: str = "", precision: str = "") -> Program:
    return program.variant(remat=Remat.parse(remat), precision=Precision.parse(precision))


@pytest.mark.share(2)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_changes_no_result(policy):
    for kept, again in zip(results_as_traced(stack), results_of(variant(stack(), policy)), strict=True):
        np.testing.assert_allclose(again, kept, rtol=2e-5, atol=1e-6)


@pytest.mark.share(3)
@pytest.mark.parametrize("scan", [True, False])
@pytest.mark.parametrize("policy", GPT_POLICIES)
def test_a_policy_of_a_transformer_keeps_less_for_more_arithmetic(policy, scan):
    program = transformer(scan=scan)
    changed = variant(program, policy)
    if policy == "none":
        assert changed.fingerprint == program.fingerprint
        return
    assert peak(changed) < peak(program)
    assert flops(changed) > flops(program) or policy == "dots"


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("policy", "scan"),
    [
        ("full", True),
        ("offload:mlp_hidden", True),
        ("offload_dots_no_batch", True),
        ("offload_dots_no_batch", False),
        ("recompute:scores+mix", False),
    ],
)
def test_a_transformer_under_a_policy_trains_the_same(policy, scan):
    changed = variant(transformer(scan=scan), policy)
    for kept, again in zip(results_as_traced(partial(transformer, scan=scan)), results_of(changed), strict=True):
        np.testing.assert_allclose(again, kept, rtol=2e-3, atol=2e-5)


def test_policies_order_memory_and_arithmetic():
    program = stack(seq=64)
    found = {policy: variant(program, policy) for policy in ("none", "dots", "save:mixed+hidden", "save:mixed", "full")}
    memory, arithmetic = ([count(each) for each in found.values()] for count in (peak, flops))
    assert memory == sorted(memory, reverse=True)
    assert arithmetic == sorted(arithmetic)
    assert arithmetic[0] == arithmetic[1] < arithmetic[2]


def test_what_is_computed_again_is_counted_apart():
    layers, batch, seq, width = 3, 16, 16, 8
    attention, matrix = 2 * batch * seq * seq * width, 2 * batch * seq * width * width
    forward_pass = layers * (2 * attention + matrix)
    # Backward: a weight's gradient in each layer, and those of its input in all but the first; attention reads x on both sides.
    once = forward_pass + layers * matrix + (layers - 1) * (matrix + 4 * attention)
    program = stack(layers, seq)
    assert flops(program) == once
    report = Plan(variant(program, "full"), "all:1").report()
    assert report.flops.model == once
    assert report.flops.unique == once + forward_pass


def test_offloaded_values_take_the_memory_of_the_host():
    for scan in (True, False):
        report = Plan(variant(build("gpt", scan=scan), "offload:mlp_hidden"), "data:4", "batch:data").report()
        hidden = 4 * (16 // 4) * 64 * 256 * 4  # layers x batch of a device x seq x d_ff, float32
        assert (report.memory.host, report.host_traffic) == (hidden, 2 * hidden)
        saved = Plan(variant(build("gpt", scan=scan), "save:mlp_hidden"), "data:4", "batch:data").report()
        assert (saved.memory.host, saved.host_traffic) == (0, 0)
        assert report.memory.peak < saved.memory.peak


def test_products_of_weights_on_the_host_take_as_much_of_it_as_they_would_of_the_device():
    layers, batch, seq, width, inner = 4, 16 // 4, 64, 64, 256  # of one device, float32
    products = 4 * layers * batch * seq * (3 * width + width + inner)  # query, key and value; after attention; into the middle
    for scan in (True, False):
        hosted, kept, full = (
            Plan(variant(build("gpt", scan=scan), policy), "data:4", "batch:data").report()
            for policy in ("offload_dots_no_batch", "dots_no_batch", "full")
        )
        assert (hosted.memory.host, hosted.host_traffic) == (products, 2 * products)
        assert (kept.memory.host, full.memory.host) == (0, 0)
        assert hosted.memory.peak < kept.memory.peak
        assert hosted.flops.unique == kept.flops.unique < full.flops.unique


@pytest.mark.parametrize("scan", [True, False])
def test_xla_tpu_holds_what_it_offloads_until_the_backward_pass_but_in_a_loop(scan):
    """As libtpu schedules it (v5e, 4 layers written out: 526 MiB, and 336 MiB where the products stay on the device)."""
    hosted, kept = (
        Plan(
            variant(build("gpt", scan=scan, seq=512, batch=64, d_model=512, d_ff=2048), policy),
            "data:8",
            "batch:data",
            hardware="TPU v5e 2x4",
        )
        for policy in ("offload_dots_no_batch", "dots_no_batch")
    )
    peaks = hosted.report().memory.peak, kept.report().memory.peak
    assert peaks[0] < 0.7 * peaks[1] if scan else peaks[0] >= peaks[1]


def test_a_mark_changes_neither_the_program_nor_its_paths():
    def step(wrap):
        block = wrap(lambda w, x: jnp.tanh(x @ w))

        def loss(params, batch):
            with jax.named_scope("block"):
                return block(params, batch).sum()

        return wb.trace_training(loss, jnp.ones((4, 4)), jnp.ones((8, 4)), optimizer=optax.sgd(1.0))

    marked, plain = step(wb.layer), step(lambda fn: fn)
    assert marked == plain
    assert [each.source for each in marked.operations] == [each.source for each in plain.operations]


def test_the_programs_own_checkpoint_stays_until_a_policy_is_chosen():
    own, marked = build("gpt", remat=True, **GPT), build("gpt", **GPT)
    assert peak(own) == peak(variant(marked, "full"))
    assert variant(own, "none").fingerprint == marked.fingerprint
    assert flops(variant(own, "dots")) == flops(variant(marked, "dots"))


def test_scanned_layers_need_no_mark():
    def loss(params, batch):
        x, _ = jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), batch, params)
        return x.sum()

    program = wb.trace_training(loss, jnp.ones((4, 8, 8)), jnp.ones((64, 8)), optimizer=optax.sgd(0.1))
    changed = variant(program, "full")
    assert peak(changed) <= peak(program)
    assert flops(changed) == flops(program) * 4 // 3
    for kept, again in zip(results_of(program), results_of(changed), strict=True):
        np.testing.assert_allclose(again, kept, rtol=1e-5)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ("save:mixd", "Did you mean `mixed`"),
        ("offload:nothing", "there are `scores`, `mixed`, `hidden`"),
        ("recompute:score", "Did you mean `scores`"),
    ],
)
def test_a_name_that_nothing_has_is_answered_with_those_there_are(policy, says):
    with pytest.raises(RematError, match=says):
        variant(stack(), policy)


def test_a_program_without_layers_says_how_to_mark_them():
    with pytest.raises(RematError, match=r"@wb\.layer"):
        variant(regression(), "full")
    with pytest.raises(RematError, match="trace_training"):
        variant(forward(), "full")


def test_a_policy_is_traced_once_and_going_back_is_instant():
    program = stack()
    full = variant(program, "full")
    assert variant(full, "full") is full
    assert variant(full).module is program.module
    assert variant(variant(full), "full").module is full.module


def test_renamed_dimensions_and_the_reference_survive():
    program = build("gpt", **GPT).rename({"d_ff": "hidden"})
    changed = variant(program, "full")
    assert changed.dims == program.dims
    assert changed.reference == program.reference
    assert variant(changed) == program
    assert variant(changed.rename({"hidden": "d_ff"})) == build("gpt", **GPT)


def test_a_program_sent_elsewhere_leaves_its_variants_behind():
    program = variant(build("gpt", **GPT), "full")
    sent = pickle.loads(cloudpickle.dumps(program))
    assert sent == program
    assert variant(sent, "full") is sent
    with pytest.raises(TraceError, match="cannot be retraced"):
        variant(sent, "none")


@pytest.mark.parametrize("precision", ["bfloat16", "params=bfloat16", "params=bfloat16,moments=float32", "bfloat16,moments=bfloat16"])
def test_a_precision_keeps_and_computes_in_the_types_it_names(precision):
    program = stack()
    changed, wanted = variant(program, precision=precision), Precision.parse(precision)
    types = {role: {each.dtype for each in changed.arguments if each.role is role and each.dtype != "int32"} for role in Role}
    assert types[Role.PARAMETER] == {wanted.params or "float32"}
    assert types[Role.OPTIMIZER_STATE] == {wanted.moments or wanted.params or "float32"}
    assert all(changed.results[result].dtype == changed.arguments[argument].dtype for result, argument in changed.carried)
    products = {each.dtype for each in changed.operations if each.kind == "dot_general"}
    assert products == ({"bfloat16"} if wanted.compute else {"float32"})  # a bfloat16 weight meets a float32 batch
    for exact, rounded in zip(results_as_traced(stack), results_of(changed), strict=True):
        np.testing.assert_allclose(rounded, exact, rtol=0.1, atol=0.03)


def test_a_forward_pass_computes_in_another_type_and_returns_its_own():
    changed = variant(forward(), precision="bfloat16")
    assert {each.dtype for each in changed.arguments} == {each.dtype for each in changed.results} == {"float32"}
    assert {each.dtype for each in changed.operations if each.kind == "dot_general"} == {"bfloat16"}
    with pytest.raises(PrecisionError, match="no optimizer"):
        variant(forward(), precision="moments=float32")


def test_layers_may_hold_what_is_bound_to_them():
    layer = wb.layer(partial(lambda x, scale: x * scale, scale=2.0))
    np.testing.assert_array_equal(layer(jnp.ones(3)), 2 * jnp.ones(3))
    np.testing.assert_array_equal(jax.grad(lambda x: layer(x).sum())(jnp.ones(3)), 2 * jnp.ones(3))


@pytest.mark.parametrize("model", ["mixture", "deep_unet"])
def test_layers_written_out_are_named_alike_whatever_they_keep(model):
    """So that a constraint on a gradient, as ZeRO states them, is about the same one under every policy."""
    program = build(model)
    kept, recomputed = (
        {each.path for each in program.variant(remat=Remat(policy)).operations if each.kind in ("dot_general", "convolution")}
        for policy in ("none", "full")
    )
    assert any(path.startswith("grad/") for path in kept)
    assert kept == recomputed
