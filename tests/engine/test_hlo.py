"""A compiled module: what it says of collectives, in every form XLA writes."""

import jax
import jax.numpy as jnp
import pytest

from tests.support.hlo_text import instruction_from, module_from
from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.spmd.device_mesh import attach, named_sharding
from workbench.reports.compiled import payload_by_axis_and_kind
from workbench.spmd import hlo_pb2
from workbench.spmd.compile_to_schedule import module_of
from workbench.spmd.device_groups import axes_of, read_groups

MESH = Mesh("data:4 model:2")
PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))
QUADS = ((0, 2, 4, 6), (1, 3, 5, 7))
ALL = (tuple(range(8)),)

GROUPS = (
    ("channel_id=1, replica_groups={{0,1},{2,3},{4,5},{6,7}}, use_global_device_ids=true", PAIRS, ("model",)),
    ("replica_groups={{0,2,4,6},{1,3,5,7}}", QUADS, ("data",)),
    ("replica_groups=[4,2]<=[8]", PAIRS, ("model",)),
    ("replica_groups=[2,4]<=[4,2]T(1,0)", QUADS, ("data",)),
    ("replica_groups=[1,8]<=[8]", ALL, ("data", "model")),
    ("replica_groups={}", ALL, ("data", "model")),
    ("channel_id=1, replica_groups={{0}}", ALL, ("data", "model")),
    ("replica_groups=mesh['axis_0'=4,'axis_1'=2] {'axis_1'}", PAIRS, ("model",)),
    ("replica_groups=mesh['axis_0'=4,'axis_1'=1,'axis_2'=2] {'axis_0'}", QUADS, ("data",)),
    (
        "replica_groups=mesh['axis_0'=2,'axis_1'=4], device_ids=([2,2,2]T(0,2,1)) {'axis_1':(2)2}",
        ((0, 2), (1, 3), (4, 6), (5, 7)),
        ("data",),
    ),
    ("replica_groups=mesh['a'=8] {'a':(1)4}", QUADS, ("data",)),
    ("replica_groups=mesh['a'=2,'b'=4] {'a','b'}", ALL, ("data", "model")),
    ("source_target_pairs={{0,2},{2,4},{4,6},{6,0}}", ((0, 2), (2, 4), (4, 6), (6, 0)), ("data",)),
    ("source_target_pairs={{0,1},{1,0}}", ((0, 1), (1, 0)), ("model",)),
)


@pytest.mark.parametrize(("attributes", "groups", "axes"), GROUPS)
def test_groups_of_devices_become_mesh_axes_in_every_way_xla_writes_them(attributes, groups, axes):
    opcode = "collective-permute(%p0)" if "pairs" in attributes else "all-reduce(%p0), to_apply=%add"
    assert read_groups(instruction_from(f"f32[16] {opcode}, {attributes}", "f32[16]").fields, 8) == groups
    assert axes_of(groups, MESH) == axes


def test_groups_are_found_in_the_list_of_devices_too():
    """As compilers of 2025 wrote them, and still do where there are few."""
    iota = {"num_replica_groups": 2, "num_devices_per_group": 4, "iota_reshape_dims": [4, 2], "iota_transpose_perm": [1, 0]}
    axes = {"mesh": {"axes": [{"name": "a", "size": 8}]}, "axes": [{"mesh_axis_index": 0, "sub_axis_info": {"pre_size": 1, "size": 4}}]}
    for lists in (
        {"iota_replica_group_list": iota},
        {"mesh_axes_replica_group_list": axes},
        {"replica_groups": [{"replica_ids": each} for each in QUADS]},
    ):
        assert read_groups(hlo_pb2.Instruction(collective_device_list=lists), 8) == QUADS


def test_groups_of_one_device_join_no_axis():
    assert axes_of(tuple((i,) for i in range(8)), MESH) == ()


def test_shapes_with_tiled_layouts_tuples_and_small_types_are_counted():
    shape = "(f32[2,3]{1,0:T(8,128)S(1)}, /*index=1*/bf16[4]{0}, s4[4], pred[2], token[])"
    assert [each.bytes for each in instruction_from(f"{shape} copy(%p0)", shape).arrays] == [24, 8, 2, 2]


TEXT = """HloModule m, is_scheduled=true

%cond (p: (s32[], f32[16])) -> pred[] {
  %p = (s32[], f32[16]{0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %limit = s32[] constant(5)
  ROOT %lt = pred[] compare(%i, %limit), direction=LT
}

%wrapped (w: f32[16]) -> f32[8] {
  %w = f32[16]{0} parameter(0)
  ROOT %rs = f32[8]{0} reduce-scatter(%w), channel_id=9, replica_groups=[4,2]<=[8], dimensions={0}, to_apply=%add
}

%inner (p: (s32[], f32[16])) -> (s32[], f32[16]) {
  %p = (s32[], f32[16]{0}) parameter(0)
  %x = f32[16]{0} get-tuple-element(%p), index=1
  %ar = f32[16]{0} all-reduce(%x), channel_id=1, replica_groups=[4,2]<=[8], to_apply=%add, metadata={op_name="jit(f)/mlp/dot"}
  %as = ((f32[16]{0}), f32[8]{0}, u32[]) async-start(%ar), calls=%wrapped
  %ad = f32[8]{0} async-done(%as)
  %i = s32[] get-tuple-element(%p), index=0
  ROOT %t = (s32[], f32[16]{0}) tuple(%i, %ar)
}

%body (p: (s32[], f32[16])) -> (s32[], f32[16]) {
  %p = (s32[], f32[16]{0}) parameter(0)
  ROOT %w1 = (s32[], f32[16]{0}) while(%p), condition=%cond, body=%inner, backend_config={"known_trip_count":{"n":"3"}}
}

%left (a: f32[16]) -> f32[16] {
  %a = f32[16]{0} parameter(0)
  ROOT %p1 = f32[16]{0} collective-permute(%a), channel_id=3, source_target_pairs={{0,2},{2,0}}
}

%right (b: f32[16]) -> f32[16] {
  ROOT %b = f32[16]{0} parameter(0)
}

ENTRY %main (x: f32[16], y: bf16[32]) -> (f32[16], bf16[32]) {
  %x = f32[16]{0} parameter(0)
  %y = bf16[32]{0} parameter(1)
  %zero = s32[] constant(0)
  %t0 = (s32[], f32[16]{0}) tuple(%zero, %x)
  %w2 = (s32[], f32[16]{0}) while(%t0), condition=%cond, body=%body
  %gs = (bf16[32]{0}, bf16[128]{0}) all-gather-start(%y), channel_id=4, replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}
  %gd = bf16[128]{0} all-gather-done(%gs)
  %one = f32[16]{0} all-reduce(%x), channel_id=7, replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}, to_apply=%add
  %k = s32[] get-tuple-element(%w2), index=0
  %c = f32[16]{0} conditional(%k, %x, %x), branch_computations={%left, %right}
  ROOT %a2a = (f32[16]{0}, bf16[32]{0}) all-to-all(%x, %y), channel_id=5, replica_groups=[4,2]<=[8]
}
"""


def test_loops_multiply_async_forms_count_once_and_groups_of_one_are_left_out():
    found = {(each.kind, each.axes): (each.payload, each.count) for each in collectives_of(module_from(TEXT), MESH)}
    assert found == {
        ("all-reduce", ("model",)): (64, 15),  # 5 times by the condition's constant, 3 by the known trip count
        ("reduce-scatter", ("model",)): (64, 15),
        ("all-gather", ("data",)): (256, 1),
        ("collective-permute", ("data",)): (64, 1),
        ("all-to-all", ("model",)): (128, 1),
    }


WRAPPED = """HloModule m

%wrapped (w: f32[16], v: f32[32]) -> (f32[8], f32[16]) {
  %w = f32[16] parameter(0)
  %v = f32[32] parameter(1)
  ROOT %rs = (f32[8], f32[16]) reduce-scatter(%w, %v), replica_groups=[4,2]<=[8], dimensions={0}, to_apply=%add, \
metadata={op_name="jit(f)/add"}
}

ENTRY %main (x: f32[16], y: f32[32]) -> (f32[8], f32[16]) {
  %x = f32[16] parameter(0)
  %y = f32[32] parameter(1)
  %up = f32[16] negate(%x), metadata={op_name="jit(f)/up/neg"}
  %down = f32[32] negate(%y), metadata={op_name="jit(f)/down/neg"}
  %start = ((f32[16], f32[32]), (f32[8], f32[16])) async-start(%up, %down), calls=%wrapped, \
backend_config={"collective_backend_config":{"is_sync":IS_SYNC}}
  ROOT %done = (f32[8], f32[16]) async-done(%start)
}
"""


@pytest.mark.parametrize("is_sync", [False, True])
def test_a_collective_in_an_asynchronous_call_is_named_after_what_the_call_is_given(is_sync):
    module = module_from(WRAPPED.replace("IS_SYNC", str(is_sync).lower()))
    (each,) = collectives_of(module, MESH)
    assert (each.kind, each.name, each.parts, each.part_paths) == ("reduce-scatter", "start", (64, 128), ("up/neg", "down/neg"))
    assert each.overlaps is not is_sync
    entry = module.computations[module.entry]
    assert [module.printed_opcode(entry[name]) for name in ("up", "start", "done")] == [
        "negate",
        "reduce-scatter-start",
        "reduce-scatter-done",
    ]


def test_a_collective_keeps_the_name_of_the_operation_it_serves():
    assert "mlp/dot" in {each.path for each in collectives_of(module_from(TEXT), MESH)}


def test_the_entry_is_where_execution_starts():
    assert module_from(TEXT).entry == "main"


def test_a_loop_without_a_known_count_runs_at_least_once():
    text = TEXT.replace("%limit = s32[] constant(5)", "%limit = s32[] get-tuple-element(%p), index=0")
    counts = {each.kind: each.count for each in collectives_of(module_from(text), MESH)}
    assert counts["all-reduce"] == 3


def test_only_whole_numbers_bound_a_loop():
    kinds = ("s32[] constant(5)", "u64[] constant(7)", "f32[] constant(0)", "pred[] constant(true)", "s32[2] constant({1, 2})")
    assert [instruction_from(each).whole_number for each in kinds] == [5, 7, None, None, None]


def _compiled(f, *shardings, out=None, shape=(64, 64)):
    mesh = attach(MESH)
    places = [named_sharding(Sharding.parse(each), mesh) for each in shardings]
    result = None if out is None else named_sharding(Sharding.parse(out), mesh)
    specs = [jax.ShapeDtypeStruct(shape, jnp.float32)] * len(places)
    return module_of(jax.jit(f, in_shardings=tuple(places), out_shardings=result).lower(*specs).compile())


REAL = (
    (lambda x, y: x @ y, ("[-, data]", "[data, -]"), "[-, -]", {(("data",), "all-reduce"): 64 * 64 * 4}),
    (lambda x: x, ("[data, -]",), "[-, -]", {(("data",), "all-gather"): 64 * 64 * 4}),
    (lambda x: x, ("[data, -]",), "[-, data]", {(("data",), "all-to-all"): 16 * 64 * 4}),
    (lambda x: jnp.roll(x, 1, 0), ("[data, -]",), "[data, -]", {(("data",), "collective-permute"): 64 * 4}),
    (lambda x, y: x @ y, ("[-, data+model]", "[data+model, -]"), "[-, -]", {(("data", "model"), "all-reduce"): 64 * 64 * 4}),
)


@pytest.mark.parametrize(("f", "shardings", "out", "expected"), REAL)
def test_what_this_xla_compiles_is_read_to_the_byte(f, shardings, out, expected):
    assert payload_by_axis_and_kind(collectives_of(_compiled(f, *shardings, out=out), MESH)) == expected


def test_a_scan_counts_its_collectives_once_an_iteration():
    def f(x, w):
        return jax.lax.scan(lambda h, _: (jnp.tanh(h @ w), None), x, None, length=7)[0]

    found = collectives_of(_compiled(f, "[-, model]", "[model, -]", out="[-, model]"), MESH)
    assert {each.count for each in found} == {7}
