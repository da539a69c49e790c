"""Bytes of a stage while its tasks run, from costs of blocks."""

import jax
import pytest

from workbench.models import build
from workbench.pipeline.estimate_block_cost import BlockCost, TaskBytes, TogetherBytes
from workbench.pipeline.stage_bytes import bytes_keeping_residuals, bytes_recomputing, local_value_bytes
from workbench.public_plan import Plan

TILE = (8, 128)


TOGETHER = TogetherBytes(40, 60, 60)


def block(read=10, kept_between_tasks=100, arriving=10, made=10) -> BlockCost:
    forward = TaskBytes(read, 0, 0, 10, 20, (("input_activations/0", read),), 20)
    backward = TaskBytes(kept_between_tasks, arriving, 0, made, 30, (), 30)
    return BlockCost("layer", 1.0, 1.0, 1.0, forward, backward, (), ())


def test_a_value_of_a_micro_batch_is_shared_along_its_first_dimension_and_padded():
    value = jax.ShapeDtypeStruct((16, 100), "float32")
    assert local_value_bytes(value, 2, ()) == 8 * 100 * 4
    assert local_value_bytes(value, 2, TILE) == 8 * 128 * 4


def test_a_value_that_cannot_be_shared_so_takes_its_even_part():
    assert local_value_bytes(jax.ShapeDtypeStruct((3, 100), "float32"), 2, TILE) == 3 * 100 * 4 // 2
    assert local_value_bytes(jax.ShapeDtypeStruct((), "float32"), 2, TILE) == 2


def test_a_stage_that_recomputes_holds_what_blocks_before_keep_as_one_program():
    """The third block at its worst moment, the inputs of two, what two keep, and the gradient it is given."""
    backward = bytes_recomputing([block()] * 3, [TOGETHER] * 3, inputs=10, arriving=10, outputs=10, departing=10, capacity=0).backward
    assert backward == 10 + 2 * 40 + 60 + 1 * 10 + 10 + 10


@pytest.mark.parametrize("capacity", [0, 10_000])
def test_what_has_room_on_the_chip_takes_no_memory_of_the_device_beside_what_a_task_reads_and_returns(capacity):
    beside = {"arriving": 10, "outputs": 12, "departing": 14, "capacity": capacity}
    keeping, recomputing = (
        bytes_keeping_residuals([block()] * 3, 300, **beside),
        bytes_recomputing([block()] * 3, [TOGETHER] * 3, 10, **beside),
    )
    if capacity:
        assert keeping.backward == 300 + 10 + 14
        assert recomputing == (10 + 12, 10 + 10 + 14)
    else:
        assert keeping.backward == 300 + 10 + 10 + 30
        assert recomputing.backward > recomputing.forward > 10 + 12


def test_of_blocks_that_each_alone_have_room_on_the_chip_several_may_not():
    """What the earlier ones keep is then in the memory of the device."""
    alone = TogetherBytes(40, 0, 60)
    backward = bytes_recomputing([block()] * 3, [alone] * 3, 10, arriving=0, outputs=0, departing=0, capacity=100).backward
    assert backward == 10 + 2 * 40 + 10 + 10 + 10


WIDE = {"d_model": 1024, "heads": 8, "d_ff": 4096, "vocab": 8192, "batch": 8}


@pytest.mark.parametrize(
    ("model", "pipeline", "compiled"),
    [
        ({"seq": 1024, "layers": 6}, "stages:1 micro_batches:4", (1657,)),
        ({"seq": 512, "layers": 6}, "stages:1 micro_batches:8", (1036,)),
        ({"seq": 512, "layers": 8}, "stages:2 micro_batches:4", (768, 744)),
    ],
    ids=str,
)
def test_a_stage_that_recomputes_needs_on_a_tpu_what_libtpu_says(model, pipeline, compiled):
    """MiB of the stages as compiled by libtpu 0.0.42."""
    stages = len(compiled)
    hardware = f"TPU v5e 1x{stages}"
    plan = Plan(build("gpt", **WIDE, **model), f"stage:{stages}", hardware=hardware, pipeline=f"{pipeline} remat:always")
    assert [peak / 2**20 for peak in plan.report().pipeline.simulated.peaks] == [pytest.approx(mib, rel=0.08) for mib in compiled]


def test_a_blocks_gradient_is_written_over_what_it_read():
    logits = block(read=500, kept_between_tasks=500, arriving=0, made=500)
    assert bytes_recomputing([block(), logits], [TOGETHER, TogetherBytes(0, 0, 0)], 10, 0, 0, 0, capacity=0).backward == 10 + 40 + 500
