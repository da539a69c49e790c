"""When communication takes longer than arithmetic on TPUs: the bounds of How to Scale Your Model, where the balance of a plan turns.

Source: jax-ml/scaling-book, edition 7728895 of 2025-12-15: part 1 (Rooflines), 3 (Sharded matrices), 4 (Transformer math), 5 (Training).
Hardware is at the vendors' peak and without latency, as the book has it: for TPU v5p 459e12 FLOP/s over 2 x 90e9 bytes/s, 2,550. A balance
is seconds of arithmetic over seconds of collectives (or of memory traffic) in the report of a plan.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

import workbench as wb
from tests.support.book_layers import at_peak, backward, comms_seconds, forward, layer, math_seconds, of_shape
from workbench.core.program import Program
from workbench.models import build
from workbench.reports.report import Report
from workbench.tracing import trace

D, F = 8192, 32_768
DATA = "x=[X, -]; hidden=[X, -]; grad_out=[X, -]; result/0/*=[-, -]; result/1=[X, -]"
SHARDED = "x=[X, -]; params/w_in=[X, -]; params/w_out=[-, X]; result=[X, -]"
TENSOR = "x=[-, Y]; params/w_in=[-, Y]; params/w_out=[Y, -]; result=[-, Y]"
MIXED = "x=[X, Y]; params/w_in=[X, Y]; params/w_out=[Y, X]; result=[X, Y]"


def report_of(program: Program, mesh: str, layout: str, slice_: str) -> Report:
    return wb.Plan(program, mesh, layout, hardware=at_peak(f"{slice_}, ici=0 us")).report()


def balance(report: Report) -> float:
    return math_seconds(report) / comms_seconds(report)


def assert_turns(balance_at: Callable[[int], float], bound: float, tolerance: float) -> None:
    """Communication, or memory, takes longer below the bound, and arithmetic above it."""
    assert balance_at(round(bound * (1 - tolerance))) < 1 < balance_at(round(bound * (1 + tolerance)))


def _product(B: int, D: int, F: int, dtype: object = jnp.bfloat16) -> Program:
    dims = {"x": "B D", "w": "D F"}
    return trace(lambda x, w: x @ w.astype(x.dtype), of_shape(B, D), of_shape(D, F, dtype=dtype), dims=dims)


def _memory_balance(program: Program) -> float:
    (kernel,) = report_of(program, "data:1", "", "TPU v5e 1x1").kernel_costs
    return kernel.arithmetic / kernel.memory


def test_a_product_is_bound_by_memory_below_240_tokens():
    """Part 1: B > 1.97e14 / 8.2e11 = 240 on TPU v5e, with B << D, F. The planner turns at 248: for D = F = 32,768 the activations, which
    the book leaves out, make 244 of it, and the planner the rest by the blocks in which a kernel
    moves its operands."""
    assert_turns(lambda B: _memory_balance(_product(B, 32_768, 32_768)), 240, 0.04)


def test_a_product_with_weights_in_eight_bits_is_bound_below_half_as_many():
    """Part 1, question 2: 120, as half of the bytes are read."""
    assert_turns(lambda B: _memory_balance(_product(B, 32_768, 32_768, jnp.int8)), 120, 0.05)


def test_experts_are_bound_by_memory_below_120_tokens_each():
    """Part 4, question 8: B > 120 E / k with weights in int8 on TPU v5e; for E = 256, k = 8 that is 3,840 tokens, 120 for each expert."""

    def balance_at(B: int) -> float:
        experts, each = 16, B * 8 // 256
        tokens, weights = of_shape(experts, each, 32_768), of_shape(experts, 32_768, 32_768, dtype=jnp.int8)
        return _memory_balance(trace(lambda x, w: jnp.einsum("ecd,edf->ecf", x, w.astype(x.dtype)), tokens, weights))

    assert_turns(balance_at, 3840, 0.05)


def test_two_chips_share_a_product_if_it_is_deep():
    """Part 1: split along D over two TPU v5e, D > 8,755 whatever B and F are."""
    layout = "x=[-, X]; w=[X, -]; result=[-, -]"
    assert_turns(lambda D: balance(report_of(_product(4096, D & ~1, 16_384), "X:2", layout, "TPU v5e 1x2")), 8755, 0.01)


@pytest.mark.parametrize(("axes", "tokens"), [(1, 2550), (2, 1275), (3, 850)])
def test_data_parallelism_needs_tokens_on_each_chip(axes, tokens):
    """Part 5: B / X > 2,550 / M_X on TPU v5p, exactly: 850 on three axes."""
    chips = 4**axes
    found = balance(report_of(backward(tokens * chips, D, F), f"X:{chips}", DATA, "TPU v5p 4x4x4"))
    assert found == pytest.approx(1, rel=0.001)
    assert_turns(lambda each: balance(report_of(backward(each * chips, D, F), f"X:{chips}", DATA, "TPU v5p 4x4x4")), tokens, 0.01)


@pytest.mark.parametrize(("axes", "tokens"), [(1, 2550), (3, 850)])
def test_fully_sharded_data_parallelism_needs_as_many(axes, tokens):
    """Part 5: "it's the same as data parallelism", forward as well as backward. (The book then writes the condition the wrong way around:
    compute bound "when B / X < C / W".)"""
    chips = 4**axes
    assert_turns(lambda each: balance(report_of(forward(each * chips, D, F), f"X:{chips}", SHARDED, "TPU v5p 4x4x4")), tokens, 0.01)
    again = "; result/0=[X, -]; result/2=[X, -]; result/1/w_in=[X, -]; result/1/w_out=[-, X]; grad_out=[X, -]"
    both = report_of(
        layer(tokens * chips, D, F, gathers_again=True), f"X:{chips}", SHARDED.replace("; result=[X, -]", again), "TPU v5p 4x4x4"
    )
    assert balance(both) == pytest.approx(1, rel=0.001)


def test_data_parallelism_over_slices_needs_tokens_in_each():
    """Part 5: B / slice > C / W_dcn. The text has 4.46e14 / 6.25e9 = 71,360, its takeaways 71,000 and 75,000; with the 459e12 that it has
    elsewhere it is 73,440, where a plan turns: over 256 slices that share each layer inside."""
    slices, chips = 256, 64
    layout = "x=[S, -]; hidden=[S, Y]; grad_out=[S, -]; params/w_in=[-, Y]; params/w_out=[Y, -]"
    results = "result/0/w_in=[-, Y]; result/0/w_out=[Y, -]; result/1=[S, -]"

    def balance_at(tokens: int) -> float:
        hardware = at_peak(f"{slices} slices of TPU v5p 4x4x4, ici=0 us, dcn=0 us")
        plan = wb.Plan(backward(tokens * slices, D, F), f"S:{slices} Y:{chips}", f"{layout}; {results}", hardware=hardware)
        return math_seconds(plan.report()) / comms_seconds(plan.report(), "S")

    assert_turns(balance_at, 73_440, 0.01)
    assert balance_at(71_360) < 1 < balance_at(75_000)


@pytest.mark.parametrize(("chips", "axes"), [(4, 1), (16, 2)])
def test_tensor_parallelism_needs_a_wide_hidden_layer(chips, axes):
    """Part 5: Y < M_Y F / 2,550, whatever the batch."""
    for tokens in (1024, 16_384):
        assert_turns(
            lambda F, B=tokens: balance(report_of(forward(B, D, F // chips * chips), f"Y:{chips}", TENSOR, "TPU v5p 4x4x4")),
            2550 * chips / axes,
            0.01,
        )


def test_both_together_go_down_to_a_hundred_tokens():
    """Part 5: B / N > 2,550**2 / 2F, at X and Y that make all three times equal, Y = F / 2,550: at F = 10,200 that is 4, and 319
    tokens."""
    report = report_of(forward(319 * 4096, D, 10_200), "X:1024 Y:4", MIXED, "TPU v5p 4x32x32")
    times = [math_seconds(report), comms_seconds(report, "X"), comms_seconds(report, "Y")]
    assert times == pytest.approx([times[0]] * 3, rel=0.002)


def test_the_older_edition_asks_for_four_times_as_many_tokens():
    """At F = 32,768 the edition of February 2025 has 2 x 2,550**2 / F = 397 ("around 400"), this one 2,550**2 / 2F = 99: the older adds
    the two communications, the newer takes the longer, for they use other links. In plans, Y being whole and its ring closed: the sum
    turns at 421 tokens with Y = 8 (best would be 6.4), the longer one at 106 with Y = 12 (12.85)."""

    def times_at(tokens: int, Y: int) -> tuple[float, float, float]:
        report = report_of(forward(tokens * 256 * Y, 8448, 32_760), f"X:256 Y:{Y}", MIXED, f"TPU v5p {Y}x16x16")
        return math_seconds(report), comms_seconds(report, "X"), comms_seconds(report, "Y")

    def added(tokens: int) -> float:
        arithmetic, *communication = times_at(tokens, 8)
        return arithmetic / sum(communication)

    def longer(tokens: int) -> float:
        arithmetic, *communication = times_at(tokens, 12)
        return arithmetic / max(communication)

    assert_turns(added, 421, 0.01)
    assert_turns(longer, 106, 0.02)
    assert longer(397) > 1


SLICES = {2048: "4x32x64", 1024: "8x32x32", 512: "16x16x32"}


@pytest.mark.parametrize("X", SLICES)
def test_the_best_amount_of_sharding_makes_both_communications_equal(X):
    """Part 5: X_opt = sqrt(B / F x M_X / M_Y x N). So at B = X**2 F / 2N they are: below it tensor parallelism is the cheaper one."""
    N, width = 8192, 28_672

    def ratio(B: int) -> float:
        report = report_of(forward(B // X * X, D, width), f"X:{X} Y:{N // X}", MIXED, f"TPU v5p {SLICES[X]}")
        return comms_seconds(report, "Y") / comms_seconds(report, "X")

    assert_turns(ratio, X**2 * width / (2 * N), 0.01)


def _two_strategies(B: int, D: int) -> tuple[float, float]:
    """Seconds of x [B, D] times y [D_X, F] on 4 of a TPU v5p, y gathered first, and products of parts summed."""

    def product(x: object, y: object) -> object:
        with jax.named_scope("left"):
            x = jax.lax.reduce_precision(x, 8, 7)
        with jax.named_scope("right"):
            return x @ jax.lax.reduce_precision(y, 8, 7)

    program = trace(product, of_shape(B, D), of_shape(D, 16_384), dims={"x": "B D", "y": "D F"})
    whole, parts = (
        "@left/reduce_precision=[-, -]; @right/reduce_precision=[-, -]",
        "@left/reduce_precision=[-, X]; @right/reduce_precision=[X, -]",
    )
    reports = [report_of(program, "X:4", f"x=[-, -]; y=[X, -]; result=[-, -]; {each}", "TPU v5p 4x4x4") for each in (whole, parts)]
    assert [each.kind for report in reports for each in report.collectives] == ["all-gather", "all-reduce"]
    first, second = (max(math_seconds(each), comms_seconds(each)) for each in reports)
    return first, second


@pytest.mark.parametrize(("B", "D"), [(1024, 2048), (2048, 4096), (4096, 5100), (16_384, 5100)])
def test_a_sum_of_partial_products_is_better_for_deep_ones(B, D):
    """Part 3, question 4: all-reduce the result instead of gathering y if D > 2B (B < 2,550), else if D > 5,100. The edition of February
    2025 knows the second alone."""

    def balance_at(D: int) -> float:
        first, second = _two_strategies(B, D // 4 * 4)
        return first / second

    assert_turns(balance_at, D, 0.01)


def test_a_chip_with_300_mb_takes_tensor_parallelism():
    """Part 3, question 7: D 8192, F 32768, B 128 on a TPU v5e 2x2 with 300 MB a chip. Weights gathered one by one need 537 MB; split over F
    they stay at 268 MB, and what moves is activations: 35 us instead of 9 ms, arithmetic being 174 us."""
    sharded = report_of(forward(128, D, F), "X:4", SHARDED, "TPU v5e 2x2")
    tensor = report_of(forward(128, D, F), "Y:4", TENSOR, "TPU v5e 2x2")
    assert tensor.memory.peak < 300e6 < sharded.memory.peak
    assert (math_seconds(tensor), comms_seconds(tensor)) == (pytest.approx(174e-6, rel=0.01), pytest.approx(35e-6, rel=0.01))
    assert comms_seconds(sharded) > 200 * comms_seconds(tensor)


def _attention_over_projections(T: int) -> float:
    program = build("decoder", preset="llama2-7b", batch=1, seq=T, layers=1, fused="", recompute="none")
    flops = {"core": 0, "query_key_value": 0, "output": 0}
    for each in wb.Plan(program, "data:1").report().products:
        for scope in flops:
            flops[scope] += each.flops * each.count if f"attention/{scope}/" in each.path else 0
    return flops["core"] / (flops["query_key_value"] + flops["output"])


@pytest.mark.compile
def test_attention_costs_as_much_as_its_projections_at_twice_the_width():
    """Part 4, question 5: T = 2D, 8,192 for D = 4,096, exactly."""
    assert _attention_over_projections(8192) == 1
    assert _attention_over_projections(4096) == 0.5
