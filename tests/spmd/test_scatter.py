"""Sums of which each device keeps its part alone."""

import pytest

from tests.support.hlo_text import module_from
from workbench.core.mesh import Mesh
from workbench.models import build
from workbench.public_plan import Plan
from workbench.spmd.ask_partitioner import ask_partitioner, scatter_sums
from workbench.spmd.locate_xla_collectives import find_collectives

pytestmark = pytest.mark.compile

MESH = Mesh("data:4 model:2")
SUMMED = """HloModule m, num_partitions=8

ENTRY %main (x: f32[64,8]) -> f32[SIZE,8] {
  %x = f32[64,8] parameter(0)
  %sum = f32[64,8] all-reduce(%x), channel_id=1, replica_groups=GROUPS, use_global_device_ids=true, to_apply=%add
  %turned = f32[64,8]{0,1} copy(%sum)
  %at = s32[] constant(0)
  %part = f32[SIZE,8] dynamic-slice(%turned, %at, %at), dynamic_slice_sizes={SIZE,8}
  ROOT %end = f32[SIZE,8] READ
}
"""


def collectives(size, groups, read="negate(%part)", *, in_part=True):
    text = SUMMED.replace("SIZE", str(size)).replace("GROUPS", groups).replace("READ", read)
    found = find_collectives(module_from(text), MESH)
    return [
        (each.collective.kind, each.collective.axes, each.collective.payload, each.collective.result)
        for each in scatter_sums(found, MESH, in_part=in_part)
    ]


def test_a_sum_of_which_each_device_keeps_its_part_is_scattered():
    assert collectives(16, "{{0,2,4,6},{1,3,5,7}}") == [("reduce-scatter", ("data",), 2048, 512)]


def test_what_is_cut_along_some_axes_is_scattered_along_these_and_its_part_summed_along_the_rest():
    assert collectives(16, "{{0,1,2,3,4,5,6,7}}") == [("reduce-scatter", ("data",), 2048, 512), ("all-reduce", ("model",), 512, 512)]
    assert collectives(16, "{{0,1,2,3,4,5,6,7}}", in_part=False) == [("all-reduce", ("data", "model"), 2048, 2048)]


@pytest.mark.parametrize(
    ("size", "read"), [(64, "negate(%part)"), (16, "slice(%sum), slice={[0:16], [0:8]}"), (12, "negate(%part)"), (21, "negate(%part)")]
)
def test_what_is_read_whole_or_in_other_parts_than_the_devices_stays_a_sum(size, read):
    assert collectives(size, "{{0,2,4,6},{1,3,5,7}}", read) == [("all-reduce", ("data",), 2048, 2048)]


def test_an_accelerators_answer_scatters_gradients_of_sharded_weights_and_a_cpus_does_not():
    plan = Plan(build("gpt", layers=1), "data:8", "batch:data").recipe("zero_3")
    kinds = {platform: {kind for _, kind in ask_partitioner(plan, platform).by_axis_and_kind} for platform in ("", "tpu", "cuda", "cpu")}
    assert all("reduce-scatter" in kinds[platform] for platform in ("", "tpu", "cuda"))
    assert "reduce-scatter" not in kinds["cpu"]
