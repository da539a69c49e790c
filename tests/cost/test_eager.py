"""Plans priced for an eager runtime: a kernel for each call, none before the host calls it, nothing fused; what floats beside a loop."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import optax
import pytest

import workbench as wb
from workbench.analysis.difference_causes import explain_time
from workbench.cost.estimate import estimate, estimate_on
from workbench.cost.simulate_turn import HostCalls, Send, simulate, simulate_called
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.runtime import find_runtime
from workbench.models.decoder import decoder
from workbench.models.decoder.decoder_layouts import sequence_parallel
from workbench.tracing import trace, trace_training

EAGER = find_runtime("eager")


def spec(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


@cache
def chain(depth: int, width: int, *, scan: bool = False) -> wb.Program:
    """A training step of `depth` layers of one product and one `tanh`, on 64 rows."""

    def loss(params, batch):
        x = batch["x"]
        if scan:
            x = jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, params)[0]
        else:
            for w in params:
                x = jnp.tanh(x @ w)
        return jnp.mean(x**2)

    params = spec(depth, width, width) if scan else [spec(width, width)] * depth
    return trace_training(loss, params, {"x": spec(64, width)}, optimizer=optax.sgd(0.1), dims={"batch/x": "batch width"})


def priced(program: wb.Program, hardware: str, mesh: str = "data:1", layout: str = ""):
    return estimate(wb.Plan(program, mesh, layout, hardware=hardware))


def test_a_call_is_a_kernel_and_what_one_line_computes_is_one_call():
    def step(x, w):
        y = jax.nn.softmax(x @ w)
        return jax.nn.gelu(y) + x

    found = priced(trace(step, spec(64, 64), spec(64, 64)), "8 H100, eager")
    assert found.kernels.count == 3  # the product; the softmax; the last line


@pytest.mark.parametrize("scan", [False, True])
def test_small_layers_take_as_long_as_the_host_needs_to_call_them(scan):
    """However narrow, a layer costs its calls; the deeper, the more."""
    narrow, narrower, deeper = (priced(chain(*size, scan=scan), "8 H100, eager").step_time for size in ((8, 64), (8, 32), (16, 64)))
    assert narrow.host > 0.8 * narrow.total
    assert narrow.total == pytest.approx(narrower.total, rel=0.02)
    calls = (deeper.total - narrow.total) / 8 / EAGER.dispatch  # forward 2, backward 3 or 4, the update at most 2
    assert 4.5 <= calls <= 8.5


@pytest.mark.parametrize("scan", [False, True])
def test_large_layers_do_not_wait_for_the_host(scan):
    step = priced(chain(8, 16384, scan=scan), "8 H100, eager").step_time
    assert step.host < 0.02 * step.total


def test_the_parts_of_a_step_sum_to_what_was_simulated_and_the_timeline_shows_it():
    plan = wb.Plan(chain(8, 64), "data:8", "batch:data", hardware="8 H100, eager")
    report = plan.report()
    found = estimate(plan)
    assert report.step_time.total == pytest.approx(found.simulated.seconds)
    kernels = [event for event in report.timeline.events if event.stream == "compute"]
    assert max(event.start + event.seconds for event in kernels) == pytest.approx(report.timeline.seconds, rel=0.2)
    assert all(a.start + a.seconds <= b.start * (1 + 1e-9) for a, b in pairwise(kernels))


def test_a_recorded_graph_has_the_kernels_of_the_eager_step_and_no_host():
    graph, eager = (priced(chain(8, 64), f"8 H100, {name}") for name in ("CUDA graphs", "eager"))
    assert graph.kernels.count == eager.kernels.count
    assert graph.step_time.host == 0.0
    assert graph.step_time.total < eager.step_time.total


def test_nothing_fused_moves_more_memory_and_its_allocator_holds_more():
    xla, eager = (priced(chain(8, 1024), f"8 H100{runtime}") for runtime in ("", ", eager"))
    assert eager.traffic > xla.traffic
    assert eager.memory.peak >= xla.memory.peak
    assert xla.memory.reserved == 0
    assert eager.memory.reserved == round(eager.memory.peak * EAGER.reserved)


def test_a_host_that_is_ahead_waits_for_nothing_and_one_behind_holds_the_device():
    ahead = simulate([1.0, 1.0], [], HostCalls((0.1, 0.2), (), 0.2))
    assert (ahead.seconds, ahead.host) == (pytest.approx(2.1), pytest.approx(0.1))
    behind = simulate_called([1.0, 1.0], [], HostCalls((2.0, 4.0), (), 4.0), is_loop=True)
    assert (behind.seconds, behind.host) == (4.0, 2.0)


def test_a_collective_is_not_sent_before_it_is_called():
    send = Send(0, 1, 1.0, ("data",), overlaps=True)
    assert simulate([0.5, 0.5], [send], HostCalls((0.1, 0.2), (3.0,), 3.0)).starts == (3.0,)


def test_weights_of_scanned_layers_are_gathered_beside_other_layers():
    """Prefetched gathers hide behind the kernels of other iterations; without prefetch a layer waits for its own."""
    program = chain(16, 4096, scan=True)
    plans = [
        wb.Plan(program, "data:8", "batch:data; params=[-, data, -]", hardware=f"8 H100, CUDA graphs{each}")
        for each in ("", ", no prefetch")
    ]
    ahead, waiting = (estimate(plan).step_time for plan in plans)
    assert ahead.exposed < waiting.exposed
    assert ahead.total < waiting.total
    assert ahead.communication == pytest.approx(waiting.communication)


def test_without_reshard_what_was_gathered_is_kept():
    program = chain(8, 512)
    plans = [wb.Plan(program, "data:8", "params/*=[data, -]", hardware=f"8 H100, eager{each}") for each in ("", ", no reshard")]
    again, kept = (estimate(plan) for plan in plans)
    assert len(again.partitioned.reshards) >= len(kept.partitioned.reshards)
    assert again.memory.peak <= kept.memory.peak


def test_repriced_equals_estimated():
    plan = wb.Plan(chain(8, 64), "data:8", "batch:data", hardware="8 H100, eager")
    other = parse_hardware("8 A100, eager")
    again = estimate_on(estimate(plan), other)
    assert again.step_time == estimate(plan, other).step_time
    assert again.memory == estimate(plan, other).memory
    xla = parse_hardware("8 H100")
    assert estimate_on(estimate(plan), xla).step_time == estimate(plan, xla).step_time


def test_a_plan_bound_by_the_host_is_told_with_its_arithmetic_and_a_way_out():
    report = wb.Plan(chain(8, 64), "data:8", "batch:data", hardware="8 H100, eager").report()
    (found,) = [each for each in report.notes if each.kind == "bound by the host"]
    assert "at 63.0 µs" in found.message
    assert "kernels" in found.message
    (edit,) = found.edits
    faster = edit.apply(report.plan).report()
    assert faster.step_time.total < report.step_time.total
    assert not [each for each in faster.notes if each.kind == "bound by the host"]


def test_what_a_measured_step_may_differ_by_is_named():
    report = wb.Plan(chain(8, 64), "data:16", "batch:data", hardware="2 nodes of 8 H100, eager").report()
    assert [each.cause.name for each in explain_time(report)] == ["bound by the host", "ring over nodes"]
    inside = wb.Plan(chain(8, 8192), "data:8", "batch:data", hardware="8 H100, CUDA graphs").report()
    assert not explain_time(inside)


def test_a_sharded_llama_with_selective_recomputation_holds_what_pytorch_would():
    """FSDP over eight devices, every other product kept, float32 weights: what torchtitan trains. Weights and AdamW's two moments are
    split; float32 logits are there three times at least (the logits, their softmax, its gradient), and reserved bytes stand apart."""
    batch, seq = 8, 8192
    program = wb.models.build(
        "decoder",
        preset="llama3-8b",
        layers=4,
        batch=batch,
        seq=seq,
        fused="attention norm rotary activation",
        recompute="alternate",
        params="float32",
    )
    layout = "batch:data; d_model:data; norm/scale=[-]; @embedding/stream/reduce_precision=[data, ?, ?]"
    report = wb.Plan(program, "data:8", layout, hardware="8 H100, eager").report()
    memory, capacity = report.memory, 85_520_809_984
    split = 3 * 4 * program.parameters // 8
    assert memory.argument_bytes == pytest.approx(split, rel=0.01)
    logits = batch // 8 * seq * 128_256 * 4
    assert memory.peak - memory.argument_bytes > 3 * logits
    assert memory.capacity == capacity
    assert memory.reserved == round(memory.peak * EAGER.reserved)
    fused = wb.Plan(program, "data:8", layout, hardware="8 H100").report().memory
    assert fused.peak < memory.peak
    assert fused.reserved == 0


def test_what_the_next_kernel_reads_is_waited_for_unless_its_pieces_go_around():
    """Tensor parallelism with split sequences: gathers and reduce-scatters of activations stand in the way, or hide behind their
    products."""
    config = wb.models.choose_config("decoder", "llama3-8b", layers=2, batch=1, seq=8192)
    program = wb.models.decoder_stage.micro_batch(config, first=False, last=False, scan=True)
    layout = "kv_heads:model; d_ff:model; " + sequence_parallel(first=False, last=False)
    waiting, around = (
        wb.Plan(program, "model:8", layout, hardware=f"8 H100, CUDA graphs{option}").report().step_time for option in ("", ", async TP")
    )
    assert waiting.exposed > 0.85 * waiting.communication  # all but the sums of scales
    assert around.exposed < 0.6 * waiting.exposed


def split_llama(*, scan: bool, recompute: str = "full", batch: int = 8):
    """Four layers of Llama 3 8B."""
    config = wb.models.choose_config("decoder", "llama3-8b", layers=4, batch=batch, seq=4096)
    return decoder.training_step(replace(config, recompute=recompute), scan=scan)


FSDP = "batch:data; d_model:data; norm/scale=[-]; @embedding/stream/reduce_precision=[data, ?, ?]"


@pytest.mark.compile
@pytest.mark.share(2)
@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("recompute", ["kernels", "full"])
def test_weights_are_gathered_ahead_forward_and_backward_however_layers_are_written(scan, recompute):
    """Of layers that are written out, too, and through the barrier behind which a layer is computed again. Without prefetch each layer
    waits for its own weights."""
    ahead, behind = (
        wb.Plan(split_llama(scan=scan, recompute=recompute), "data:8", FSDP, hardware=f"8 H100, eager{option}").report().step_time
        for option in ("", ", no prefetch")
    )
    assert ahead.exposed < 0.3 * ahead.communication
    assert behind.exposed > 2 * ahead.exposed
    assert behind.total > ahead.total


@pytest.mark.compile
def test_layers_written_out_take_as_long_as_layers_in_a_loop():
    written, looped = (
        wb.Plan(split_llama(scan=scan, batch=256), "data:256", FSDP, hardware="32 nodes of 8 H100, eager").report().step_time.total
        for scan in (False, True)
    )
    assert written == pytest.approx(looped, rel=0.08)


def test_what_an_earlier_loop_has_stacked_is_no_weight():
    """The activations of split sequences, gathered again in the backward pass, are read by the next kernels, not a layer ahead."""
    config = wb.models.choose_config("decoder", "llama3-8b", layers=2, batch=1, seq=4096)
    program = wb.models.decoder_stage.micro_batch(config, first=False, last=False, scan=True)
    layout = "kv_heads:model; d_ff:model; " + sequence_parallel(first=False, last=False)
    simulated = priced(program, "8 H100, eager", "model:8", layout).simulated
    floating = [send for sends in simulated.sends for send in sends if send.floats]
    assert floating  # the sums of the norms' gradients
    assert max(send.seconds for send in floating) < 0.2 * max(send.seconds for sends in simulated.sends for send in sends)


def test_of_collectives_that_may_start_at_once_the_one_needed_first_is_first():
    late, soon = Send(0, 9, 5.0, ("data",), overlaps=True), Send(0, 1, 5.0, ("data",), overlaps=True)
    assert simulate([1.0] * 10, [late, soon]).starts == (5.0, 0.0)
