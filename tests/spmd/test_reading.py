"""Modules read from HLO text: groups of devices in every way XLA writes them, loops, tuples, permutes, asynchronous and fused forms."""

import numpy as np
import pytest
from jaxlib.xla_client import hlo

from workbench.core.mesh import Mesh
from workbench.spmd import hlo_pb2
from workbench.spmd.device_groups import axes_of, read_groups, sub_axes_of
from workbench.spmd.hlo_module import read_module
from workbench.spmd.hlo_shapes import bytes_of, read_shape
from workbench.spmd.locate_xla_collectives import find_collectives, operations_named

MESH = Mesh("data:4 model:2")
PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))
QUADS = ((0, 2, 4, 6), (1, 3, 5, 7))
ALL = (tuple(range(8)),)

ADD = """
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}
"""


def module_of(text):
    return read_module(hlo.hlo_module_from_text(f"HloModule m, num_partitions=8\n{ADD}{text}").as_serialized_hlo_module_proto())


def read_collectives(module):
    """All collectives of a module, in program order."""
    return tuple(each.collective for each in find_collectives(module, MESH))


def collective(attributes, opcode="all-reduce"):
    """One of `f32[16]` with these groups."""
    applied = ", to_apply=%add" if opcode == "all-reduce" else ""
    body = f"  %x = f32[16] parameter(0)\n  ROOT %c = f32[16] {opcode}(%x), {attributes}{applied}"
    return module_of(f"ENTRY %main (x: f32[16]) -> f32[16] {{\n{body}\n}}").computations["main"]["c"]


WRITTEN = [
    ("channel_id=1, replica_groups={{0,1},{2,3},{4,5},{6,7}}, use_global_device_ids=true", PAIRS, ("model",)),
    ("channel_id=1, replica_groups={{0,2,4,6},{1,3,5,7}}", QUADS, ("data",)),
    ("channel_id=1, replica_groups=[4,2]<=[8]", PAIRS, ("model",)),
    ("channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0)", QUADS, ("data",)),
    ("channel_id=1, replica_groups=[1,8]<=[8]", ALL, ("data", "model")),
    ("channel_id=1, replica_groups={}", ALL, ("data", "model")),
    ("channel_id=1, replica_groups={{0}}", ALL, ("data", "model")),
    ("channel_id=1, replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}", tuple((i,) for i in range(8)), ()),
]


@pytest.mark.parametrize(("attributes", "groups", "axes"), WRITTEN)
def test_groups_are_read_as_they_are_written(attributes, groups, axes):
    found = read_groups(collective(attributes).fields, 8)
    assert found == groups
    assert axes_of(found, MESH) == axes


def test_a_permutation_has_pairs():
    pairs = ((0, 2), (2, 4), (4, 6), (6, 0))
    found = read_groups(collective("source_target_pairs={{0,2},{2,4},{4,6},{6,0}}", "collective-permute").fields, 8)
    assert found == pairs
    assert axes_of(found, MESH) == ("data",)


def by_mesh(sizes, used, order=(), ids=()):
    """Groups by the axes of a mesh; of a part of an axis its (axis, size before it, its size)."""
    message = hlo_pb2.Instruction()
    groups = message.collective_device_list.mesh_axes_replica_group_list
    for i, size in enumerate(sizes):
        groups.mesh.axes.add(name=f"axis_{i}", size=size)
    groups.mesh.iota_transform.reshape_dims.extend([sizes[i] for i in np.argsort(order)] if order else ())
    groups.mesh.iota_transform.transpose_perm.extend(order)
    groups.mesh.device_ids.extend(ids)
    for axis, *part in used:
        each = groups.axes.add(mesh_axis_index=axis)
        if part:
            each.sub_axis_info.pre_size, each.sub_axis_info.size = part
    return message


BY_MESH = [
    (by_mesh((4, 2), [(1,)]), PAIRS),
    (by_mesh((4, 1, 2), [(0,)]), QUADS),
    (by_mesh((8,), [(0, 1, 4)]), QUADS),
    (by_mesh((2, 4), [(0,), (1,)]), ALL),
    (by_mesh((8,), [(0, 4, 2)]), PAIRS),
    (by_mesh((2, 4), [(1, 2, 2)]), PAIRS),
    (by_mesh((8,), [(0, 2, 2)]), ((0, 2), (1, 3), (4, 6), (5, 7))),
    (by_mesh((2, 4), [(0,)], order=(1, 0)), PAIRS),
    (by_mesh((4, 2), [(1,)], ids=(0, 2, 1, 3, 4, 6, 5, 7)), ((0, 2), (1, 3), (4, 6), (5, 7))),
]


@pytest.mark.parametrize(("message", "groups"), BY_MESH)
def test_groups_by_a_mesh_are_those_of_its_axes(message, groups):
    assert read_groups(message, 8) == groups


PARTS = [
    (((0, 1), (2, 3), (4, 5), (6, 7)), "data:8", ("data:(4)2",)),
    (((0, 4), (1, 5), (2, 6), (3, 7)), "data:8", ("data:(1)2",)),
    (((0, 2), (1, 3), (4, 6), (5, 7)), "data:8", ("data:(2)2",)),
    (((0, 1, 2, 3), (4, 5, 6, 7)), "data:2 model:4", ("model",)),
    (((0, 2), (1, 3), (4, 6), (5, 7)), "data:2 model:4", ("model:(1)2",)),
    (((0, 2, 4, 6), (1, 3, 5, 7)), "data:2 model:4", ("data", "model:(1)2")),
    (tuple((device, (device + 1) % 8) for device in range(8)), "data:8", ("data",)),  # a ring
    (tuple((device, device + 1) for device in range(7)), "data:8", ("data",)),  # a halo
    (tuple((device, device + 4) for device in range(4)), "data:8", ("data:(1)2",)),
]


@pytest.mark.parametrize(("groups", "mesh", "axes"), PARTS)
def test_of_an_axis_that_a_part_talks_along_the_part_is_named(groups, mesh, axes):
    assert sub_axes_of(groups, Mesh(mesh)) == axes


LOOP = """
%cond (p: (s32[], f32[16])) -> pred[] {
  %p = (s32[], f32[16]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %limit = s32[] constant(LIMIT)
  ROOT %lt = pred[] compare(%i, %limit), direction=LT
}

%body (p: (s32[], f32[16])) -> (s32[], f32[16]) {
  %p = (s32[], f32[16]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[16] get-tuple-element(%p), index=1
  %step = s32[] constant(STEP)
  %next = s32[] add(%i, %step)
  %ar = f32[16] all-reduce(%x), channel_id=1, replica_groups=[4,2]<=[8], to_apply=%add, metadata={op_name="wb3"}
  ROOT %t = (s32[], f32[16]) tuple(%next, %ar)
}

ENTRY %main (x: f32[16]) -> f32[16] {
  %x = f32[16] parameter(0)
  %start = s32[] constant(START)
  %t = (s32[], f32[16]) tuple(%start, %x)
  %w = (s32[], f32[16]) while(%t), condition=%cond, body=%bodyKNOWN
  ROOT %r = f32[16] get-tuple-element(%w), index=1
}
"""


@pytest.mark.parametrize(
    ("start", "limit", "step", "known", "trips"),
    [
        (0, 5, 1, "", 5),
        (2, 5, 1, "", 3),
        (0, 5, 2, "", 3),  # unrolled twice, the bound as it was
        (7, 5, 1, "", 0),
        (0, 5, 1, ', backend_config={"known_trip_count":{"n":"11"}}', 11),
    ],
)
def test_a_loop_runs_as_often_as_its_counter_says(start, limit, step, known, trips):
    text = LOOP.replace("LIMIT", str(limit)).replace("STEP", str(step)).replace("START", str(start)).replace("KNOWN", known)
    (found,) = read_collectives(module_of(text))
    assert (found.count, found.payload, found.axes, found.made_by, found.read_by) == (trips, 64, ("model",), 3, -1)


def test_a_loop_that_nothing_bounds_is_counted_once():
    text = LOOP.replace("s32[] constant(LIMIT)", "s32[] get-tuple-element(%p), index=0").replace("STEP", "1").replace("START", "0")
    (found,) = read_collectives(module_of(text.replace("KNOWN", "")))
    assert found.count == 1


MANY = """
%left (a: f32[16]) -> f32[16] {
  %a = f32[16] parameter(0)
  ROOT %p1 = f32[16] collective-permute(%a), channel_id=3, source_target_pairs={{0,2},{2,0}}
}

%right (b: f32[16]) -> f32[16] {
  ROOT %b = f32[16] parameter(0)
}

ENTRY %main (x: f32[16], y: bf16[32], k: pred[]) -> (f32[16], f32[8], bf16[32]) {
  %x = f32[16] parameter(0)
  %y = bf16[32] parameter(1)
  %k = pred[] parameter(2)
  %sin = f32[16] sine(%x), metadata={op_name="wb0"}
  %cos = f32[16] cosine(%x), metadata={op_name="wb1"}
  %both = (f32[16], f32[16]) all-reduce(%sin, %cos), channel_id=1, replica_groups=[4,2]<=[8], to_apply=%add, \
metadata={op_name="wb0 wb1"}
  %one = f32[16] get-tuple-element(%both), index=0
  %two = f32[16] get-tuple-element(%both), index=1
  %tanh = f32[16] tanh(%one), metadata={op_name="wb5"}
  %exp = f32[16] exponential(%two), metadata={op_name="wb6"}
  %sum = f32[16] add(%tanh, %exp), metadata={op_name="wb7"}
  %rs = f32[8] reduce-scatter(%sum), channel_id=2, replica_groups=[4,2]<=[8], dimensions={0}, to_apply=%add, metadata={op_name="wb7"}
  %gs = (bf16[32], bf16[128]) all-gather-start(%y), channel_id=4, replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}
  %gd = bf16[128] all-gather-done(%gs)
  %slice = bf16[32] slice(%gd), slice={[0:32]}
  %c = f32[16] conditional(%k, %sum, %sum), true_computation=%left, false_computation=%right
  ROOT %t = (f32[16], f32[8], bf16[32]) tuple(%c, %rs, %slice)
}
"""


def test_of_several_arrays_sent_together_each_is_joined_to_its_own():
    one, two, *_ = read_collectives(module_of(MANY))
    assert (one.made_by, one.read_by) == (0, 5)
    assert (two.made_by, two.read_by) == (1, 6)
    assert one.payload == two.payload == 64


def test_payloads_are_of_the_larger_side_and_started_forms_count_once():
    found = {each.kind: (each.payload, each.result, each.count) for each in read_collectives(module_of(MANY))}
    assert found == {
        "all-reduce": (64, 64, 1),
        "reduce-scatter": (64, 32, 1),
        "all-gather": (256, 256, 1),
        "collective-permute": (64, 64, 1),
    }


def test_an_operand_that_others_read_too_is_not_freed():
    found = {each.kind: each.frees_operand for each in read_collectives(module_of(MANY))}
    assert found["all-reduce"]
    assert not found["reduce-scatter"]  # the branches read the sum


def test_the_operations_an_instruction_is_named_after_are_numbers_behind_wb():
    assert operations_named("jit(step)/(wb12:while/wb7)/wbx/web3") == (12, 7)


@pytest.mark.parametrize(("text", "size"), [("(f32[2,3], (bf16[4], s4[4]), pred[2], token[])", 24 + 8 + 2 + 2), ("f32[]", 4)])
def test_shapes_are_counted(text, size):
    module = module_of(f"ENTRY %main (x: {text}) -> {text} {{\n  ROOT %x = {text} parameter(0)\n}}")
    assert bytes_of(read_shape(module.computations["main"]["x"].fields.shape)) == size
