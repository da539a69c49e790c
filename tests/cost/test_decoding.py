"""A step of decoding reads weights and cache: it is bound by memory on GPUs and TPUs, and takes longer step by step with the batch."""

from itertools import pairwise

import pytest

import workbench as wb
from workbench.cost.kernel_times import AttentionDot, attention_slowdown
from workbench.cost.tile_padding import blocks_volume
from workbench.models import build

H100_TILE = (128, 256, 64, 132, 2)
LLAMA = {"preset": "llama3-8b", "seq": 2048, "context": 2048, "layers": 2, "fused": "attention norm activation rotary", "lookup": "gather"}


def decode(batch: int, hardware: str, mesh: str = "x:1", layout: str = "") -> wb.Report:
    return wb.Plan(build("decoder_decode", batch=batch, **LLAMA), mesh, layout, hardware=hardware).report()


@pytest.mark.compile
@pytest.mark.parametrize("hardware", ["1 A100", "1 H100", "1 H200"])
@pytest.mark.parametrize("batch", [1, 8, 32])
def test_on_a_gpu_every_kernel_that_multiplies_waits_for_memory(hardware, batch):
    found = decode(batch, hardware)
    assert {each.bound for each in found.kernel_costs if each.flops} <= {"memory", "launch"}
    assert found.step_time.total >= found.traffic / found.plan.hardware.chip.memory_bandwidth


@pytest.mark.parametrize(("runtime", "is_converted_alone"), [("", False), (", inference engine", False), (", PyTorch inference", True)])
def test_weights_of_few_bits_are_read_by_products_where_the_runtime_s_kernels_convert_them(runtime, is_converted_alone):
    """XLA's Triton products, and those of inference servers; eager PyTorch converts them first, in a kernel of its own."""
    wide, narrow = (
        wb.Plan(build("decoder_decode", batch=8, weights=weights, **LLAMA), "x:1", "", hardware="1 H100" + runtime).report()
        for weights in ("bfloat16", "int4")
    )
    assert (narrow.seconds > wide.seconds) == is_converted_alone
    assert (narrow.traffic > wide.traffic) == is_converted_alone
    weights_saved = 0.7 * 2 * 218e6 * 1.5  # bytes: both layers, of 218 million weights each
    assert wide.traffic - narrow.traffic > weights_saved or is_converted_alone


@pytest.mark.compile
def test_a_gpu_writes_more_tokens_a_second_the_more_sequences_there_are():
    batches = [1, 2, 4, 8, 16, 32, 64]
    seconds = [decode(batch, "1 H200").seconds for batch in batches]
    assert seconds == sorted(seconds)
    rates = [batch / each for batch, each in zip(batches, seconds, strict=True)]
    assert rates == sorted(rates)


@pytest.mark.compile
def test_on_a_tpu_a_step_does_not_jump_where_the_cache_outgrows_the_on_chip_memory():
    """At 112 sequences a layer's keys on a device are as large as that memory; the bytes of the cache grow evenly."""
    seconds = [decode(batch, "TPU v5e 2x2", "x:4", "kv_heads:x; d_ff:x; vocab:x").seconds for batch in (80, 96, 112, 128, 144)]
    steps = [after - before for before, after in pairwise(seconds)]
    assert max(steps) == pytest.approx(min(steps), rel=0.1)


@pytest.mark.compile
def test_on_a_tpu_the_cache_is_read_no_faster_than_its_memory_goes():
    found = decode(64, "TPU v5e 2x2", "x:4", "kv_heads:x; d_ff:x; vocab:x")
    (attention,) = [each for each in found.kernel_costs if "flash_decoding" in each.path and each.flops]
    chip = found.plan.hardware.chip
    assert attention.memory >= attention.bytes / (chip.memory_bandwidth * chip.efficiency_of("memory"))


def test_a_block_is_as_thin_as_a_dot_of_few_rows_or_columns():
    wide = 132 * 128
    volumes = [blocks_volume(1, rows, wide, 4096, H100_TILE) for rows in (1, 16, 17, 33, 65, 128)]
    assert [each / volumes[0] for each in volumes] == [1, 1, 2, 4, 8, 8]
    assert blocks_volume(1, wide, 1, 4096, H100_TILE) == volumes[0]


def test_a_large_dot_has_the_blocks_it_had():
    assert blocks_volume(1, 4096, 4096, 4096, H100_TILE) == 4 * 132 * 128 * 256 * (4096 + 2 * 64)


def test_few_queries_share_the_keys_among_all_units():
    one, many = (attention_slowdown(AttentionDot(8, 4, keys, 128, 1.0, is_backward=False), units=132) for keys in (2048, 32768))
    assert many <= one < 8
    assert attention_slowdown(AttentionDot(8, 4, 256, 128, 1.0, is_backward=False), units=132) > one
