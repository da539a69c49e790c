"""What an attention kernel of a GPU loses: to the softmax, at the ends of a pass, on the diagonal, to units empty."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.cost.kernel_times import AttentionDot, attention_slowdown
from workbench.models.decoder import decoder
from workbench.models.decoder.decoder_config import PRESETS
from workbench.tracing import fused_kernel

UNITS = 108
LENGTHS = st.sampled_from([128, 512, 1024, 4096, 16384])
HEADS = st.sampled_from([32, 64, 128])


@given(LENGTHS, LENGTHS, HEADS, st.sampled_from([0.5, 1.0]), st.integers(1, 512), st.booleans())
def test_the_longer_the_sequences_and_the_more_heads_the_nearer_to_the_share(queries, keys, head, share, batch, is_backward):
    dot = AttentionDot(batch, queries, keys, head, share, is_backward)
    found = attention_slowdown(dot, UNITS)
    assert found > 1
    assert attention_slowdown(dot._replace(rows=2 * queries, columns=2 * keys), UNITS) < found
    assert attention_slowdown(dot._replace(batch=2 * batch), UNITS) <= found


@given(LENGTHS, HEADS, st.booleans())
def test_the_products_of_a_kernel_are_alike_whichever_side_is_summed(length, head, is_backward):
    sides = (length, length, head), (length, head, length), (head, length, length)
    found = {attention_slowdown(AttentionDot(64, *each, 0.5, is_backward), UNITS) for each in sides}
    assert len(found) == 1


def test_one_head_of_a_short_sequence_leaves_most_units_idle():
    one, many = (attention_slowdown(AttentionDot(batch, 1024, 1024, 128, 1.0, is_backward=False), UNITS) for batch in (1, 64))
    assert one / many == pytest.approx(UNITS / 8)


def kernel_rate(seq: int, head: int = 128, *, work: float = 0.5, hardware: str = "1 A100") -> float:
    """FLOP/s of the forward kernel in a plan, 2,048 x 8 tokens in 16 heads whatever the length."""

    def attend(q, k, v):
        with fused_kernel("flash_attention", work=work):
            return jnp.einsum("bhst,bhtk->bhsk", jax.nn.softmax(jnp.einsum("bhsk,bhtk->bhst", q, k), axis=-1), v)

    shape = jax.ShapeDtypeStruct((16384 // seq, 16, seq, head), jnp.bfloat16)
    report = wb.Plan(wb.trace(attend, shape, shape, shape), "x:1", hardware=hardware).report()
    (kernel,) = [each for each in report.kernel_costs if each.flops]
    return kernel.flops / kernel.arithmetic


def test_the_rate_of_flash_attention_grows_with_the_sequence_as_published():
    """FlashAttention-2's own figure for A100, causal, heads of 128: about 180 TFLOP/s at 4,096 tokens."""
    rates = [kernel_rate(seq) for seq in (512, 1024, 2048, 4096, 16384)]
    assert rates == sorted(rates)
    assert rates[3] == pytest.approx(180e12, rel=0.05)
    assert 0.5 < rates[0] / rates[-1] < 0.75
    assert kernel_rate(4096, 64) < rates[3]
    assert kernel_rate(4096, work=1.0) > rates[3]  # nothing is computed that a mask hides


def test_a_nonlinearity_of_its_own_is_kept_beside_what_it_is_multiplied_with():
    """PyTorch's `silu(gate) * up`: two kernels forward; the product's operands are kept, and the gate."""
    config = replace(PRESETS["tiny"], gate_up=2, layers=2, recompute="kernels")
    joint, apart = (
        wb.Plan(decoder.training_step(replace(config, fused=f"norm {word}")), "x:1", hardware="1 H100, eager").report()
        for word in ("activation", "nonlinearity")
    )
    curved = config.batch * config.seq * config.d_ff * jnp.dtype(config.compute).itemsize
    assert apart.memory.peak - joint.memory.peak == pytest.approx(config.layers * curved, rel=0.05)
    assert apart.kernels > joint.kernels


def attention_arithmetic(layout: str, *, work: float = 0.5, hardware: str = "8 A100, eager") -> float:
    """Seconds in the kernel of 16,384 tokens in 32 heads, keys and values on every device."""

    def attend(q, k, v):
        with fused_kernel("flash_attention", work=work):
            return jnp.einsum("bhst,bhtk->bhsk", jax.nn.softmax(jnp.einsum("bhsk,bhtk->bhst", q, k), axis=-1), v)

    shape = jax.ShapeDtypeStruct((1, 32, 16384, 128), jnp.bfloat16)
    program = wb.trace(attend, shape, shape, shape, dims={"q": "batch heads seq d_head", "k": "batch heads keys d_head"})
    report = wb.Plan(program, "x:8", layout, hardware=hardware).report()
    return sum(each.arithmetic for each in report.kernel_costs if each.flops)


def test_the_last_part_of_a_split_sequence_attends_to_nearly_all_keys():
    """A ring of 8 contiguous parts reaches 51 to 54 % of unsharded FlashAttention, gathered keys 52 to 58 % (ring-flash-attention)."""
    whole, split = attention_arithmetic("heads:x"), attention_arithmetic("seq:x")
    assert whole / split == pytest.approx(1 / (2 - 1 / 8), rel=0.02)


def test_without_a_mask_or_with_parts_from_both_ends_all_devices_attend_alike():
    assert attention_arithmetic("seq:x", work=1.0) == pytest.approx(attention_arithmetic("heads:x", work=1.0), rel=0.02)
    balanced = [attention_arithmetic(layout, hardware="8 A100, Megatron Core") for layout in ("heads:x", "seq:x")]
    assert balanced[1] == pytest.approx(balanced[0], rel=0.02)
