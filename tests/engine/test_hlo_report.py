"""A compiled program read: collectives in every form, kernels, arithmetic, memory over the schedule."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from tests.support import tpu_hlo
from tests.support.hlo_text import instruction_from, module_from
from tests.support.run_programs import plan
from workbench.core.mesh import Mesh
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.hlo.compiled_kernels import kernels_of
from workbench.engine.hlo.read_compiled import read_compiled, timeline_of
from workbench.engine.spmd.compiled_step import argument_specs, compile_step, jit_step
from workbench.engine.spmd.device_mesh import attach
from workbench.spmd.compile_to_schedule import module_of
from workbench.spmd.device_groups import axes_of, sub_axes_of
from workbench.spmd.hlo_flops import ConvWindow, flops_of

RING = Mesh("data:4")


def found(text, mesh=RING, read_axes=axes_of):
    return {each.name: each for each in collectives_of(module_from(text), mesh, read_axes)}


PADDED = (
    ("f32[3,130]{1,0:T(8,128)}", 8 * 256 * 4),
    ("f32[3,130]{0,1:T(8,128)}", 136 * 128 * 4),
    ("bf16[2,1024,6,64]{1,3,0,2:T(8,128)(2,1)}", 6 * 2 * 64 * 1024 * 2),
    ("bf16[3,100]{1,0:T(8,128)(2,1)}", 8 * 128 * 2),
    ("f32[768]{0:T(1024)}", 4096),
    ("s32[]{:T(128)}", 512),
    ("pred[8,1024]{1,0:T(32,128)(4,1)}", 32 * 1024),
    ("s4[16,256]{1,0:T(8,128)E(4)}", 16 * 256 // 2),
    ("f32[5,7]", 140),
)


@pytest.mark.parametrize(("shape", "size"), PADDED)
def test_tiles_pad_an_array_as_the_compiler_pads_it(shape, size):
    (array,) = instruction_from(f"{shape} copy(%p0)", shape).arrays
    assert array.padded_bytes == size


def test_memory_spaces_are_read_of_tuples_too():
    shape = "((f32[2]{0:T(128)}), bf16[4]{0:T(512)(128)(2,1)S(1)}, u32[]{:S(2)}, f32[2]{0:S(5)})"
    assert [each.space for each in instruction_from(f"{shape} copy(%p0)", shape).arrays] == [0, 1, 2, 5]


def test_a_loop_whose_counter_steps_by_two_runs_half_as_often_as_its_bound():
    module = module_from(tpu_hlo.WINDOWED)
    assert module.trip_count(module.computations["main.1"]["while.110"]) == 4


@pytest.mark.parametrize("read_axes", [axes_of, sub_axes_of])
def test_permutes_of_a_windowed_loop_are_pieces_of_the_gather_it_was(read_axes):
    (whole,) = found(tpu_hlo.WINDOWED, read_axes=read_axes).values()
    assert (whole.kind, whole.part_of, whole.axes) == ("collective-permute", "all-gather", ("data",))
    assert (whole.payload, whole.count, whole.pieces, whole.overlaps) == (4 * 48 * 64 * 4, 1, 4, True)
    assert whole.path == "layers/mlp/up/dot_general"


def test_permutes_of_an_unrolled_window_are_told_apart_by_what_they_send():
    parts = {name: each.part_of for name, each in found(tpu_hlo.UNROLLED).items()}
    assert parts == {
        "collective-permute-start.29": "all-gather",
        "collective-permute-start.11": "reduce-scatter",
        "collective-permute-start.1": "",
        "collective-permute-start.2": "",
    }


def test_a_collective_in_three_fusions_on_one_channel_is_one():
    collectives = found(tpu_hlo.ASYNCHRONOUS)
    assert set(collectives) == {"async-collective-start", "fusion"}
    gather = collectives["async-collective-start"]
    assert (gather.kind, gather.payload, gather.count, gather.overlaps) == ("all-gather", 8 * 128 * 2, 1, True)
    assert gather.path == "grad/head/dot_general"


def test_a_fused_all_reduce_and_slice_is_a_reduce_scatter():
    scatter = found(tpu_hlo.ASYNCHRONOUS)["fusion"]
    assert (scatter.kind, scatter.payload, scatter.overlaps) == ("reduce-scatter", 16 * 1024 * 4, False)
    assert scatter.path == "layers/0/attention/output/dot_general"


def test_a_combined_collective_keeps_its_parts_and_where_each_is_from():
    (each,) = found(tpu_hlo.COMBINED).values()
    assert each.parts == (72, 3072)
    assert each.payload == 3144
    assert each.part_paths == ("grad/mlp/up/dot_general", "grad/norm/reduce_sum")
    assert each.source == "gpt.py:42"


def test_kernels_have_the_compilers_seconds_and_fusions_that_only_wait_are_none():
    kernels = {each.name: each for each in kernels_of(module_from(tpu_hlo.ASYNCHRONOUS), clock=1e9)}
    assert set(kernels) == {"fusion.343"}
    kernel = kernels["fusion.343"]
    assert (kernel.seconds, kernel.flops, kernel.path) == (1.5e-6, 2 * 2 * 128 * 16, "head/dot_general")


def test_kernels_of_a_loop_count_its_trips_and_an_update_in_place_writes_its_slice():
    kernels = {each.name: each for each in kernels_of(module_from(tpu_hlo.IN_PLACE), clock=1e9)}
    assert set(kernels) == {"made", "written", "sum", "result"}  # no counters, no allocations
    assert kernels["written"].count == 4
    assert kernels["written"].bytes == 2 * 8 * 128 * 4 + 4  # reads and writes one slice, and reads its number
    assert kernels["sum"].seconds is None


def test_without_a_clock_cycles_are_no_seconds():
    assert all(each.seconds is None for each in kernels_of(module_from(tpu_hlo.IN_PLACE), clock=None))


def test_a_stack_that_a_loop_fills_is_one_buffer_and_named_for_what_is_written():
    stack, made = 4 * 8 * 128 * 4, 8 * 128 * 4
    timeline = timeline_of(module_from(tpu_hlo.IN_PLACE))
    assert timeline.peak == stack + made
    assert timeline.at_peak[0] == ("layers/mlp/tanh", stack)
    names = [name for name, _ in timeline.alive]
    assert "on_chip" not in names
    curve = [(name, count) for name, count in timeline.alive if name in ("buffer", "made", "sum", "result")]
    one_tile = 8 * 128 * 4  # 4 rows of the sum fill a tile; its result lies in the donated argument, and is no temporary
    assert curve == [("buffer", stack), ("made", stack + made), ("sum", stack + one_tile), ("result", one_tile)]


def test_temporaries_of_a_program_on_the_cpu_come_close_to_what_xla_takes():
    """Of several layers whose values die one after the other."""
    mesh = attach(RING)
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))

    def f(x):
        for _ in range(4):
            x = jnp.sort(jnp.tanh(x), axis=-1)
        return x.sum()

    spec = jax.ShapeDtypeStruct((64, 4096), jnp.float32)
    compiled = jax.jit(f, in_shardings=sharding).lower(spec).compile()
    assert timeline_of(module_of(compiled)).peak == pytest.approx(compiled.memory_analysis().temp_size_in_bytes, rel=0.1)


CONVOLUTIONS = (
    (ConvWindow(given=8, kernel=3, result=6), 18),
    (ConvWindow(given=8, kernel=3, result=8, pad_low=1), 22),
    (ConvWindow(given=8, kernel=3, result=4, stride=2, pad_low=1), 11),
    (ConvWindow(given=6, kernel=6, result=6, stride=5, lhs_dilate=6), 6),  # a batch dimension of a product, as XLA:TPU writes it
)


@pytest.mark.parametrize(("window", "met"), CONVOLUTIONS)
def test_only_positions_where_a_window_meets_an_element_count(window, met):
    from workbench.spmd.hlo_flops import _count_window_hits

    taps = [
        (result * window.stride - window.pad_low + tap * window.rhs_dilate)
        for result in range(window.result)
        for tap in range(window.kernel)
    ]
    last = (window.given - 1) * window.lhs_dilate
    assert _count_window_hits(window) == sum(0 <= place <= last and place % window.lhs_dilate == 0 for place in taps) == met


def test_flops_of_batched_products_are_those_of_the_plan():
    mesh = attach(Mesh("data:1"))
    a, b = jax.ShapeDtypeStruct((3, 5, 7), jnp.float32), jax.ShapeDtypeStruct((3, 7, 11), jnp.float32)
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    module = module_of(jax.jit(lambda a, b: a @ b, in_shardings=(sharding, sharding)).lower(a, b).compile())
    assert sum(flops_of(each, each.values()) for each in module.computations.values()) == 2 * 3 * 5 * 7 * 11


def test_a_compiled_step_is_read_whole():
    of = plan()
    step = compile_step(of)
    memory = step.compiled.memory_analysis()
    compiled = read_compiled(module_of(step.compiled), of.mesh, memory, target="8 attached cpu", compiler="XLA")
    assert compiled.devices == 8
    assert compiled.memory.arguments == memory.argument_size_in_bytes
    assert compiled.memory.peak >= compiled.memory.arguments
    assert sum(each.flops * each.count for each in compiled.kernels) == of.report().flops.per_device
    assert {each.source.partition(":")[0] for each in compiled.collectives if each.source} == {"run_programs.py"}
    assert compiled.compute_seconds is None
    assert "memory per device" in str(compiled)


def test_lines_of_a_constrained_program_are_the_users():
    of = plan("batch:data; d_ff:model; @tanh=[data, model]")
    mesh = attach(of.mesh)
    compiled = jit_step(of, mesh).lower(*argument_specs(of.program)).compile()
    sources = {each.source.partition(":")[0] for each in collectives_of(module_of(compiled), of.mesh)}
    assert sources - {""} == {"run_programs.py"}


def test_memory_that_is_offloaded_is_the_hosts():
    names = ("argument", "output", "alias", "temp", "generated_code", "host_argument", "host_output", "host_alias", "host_temp")
    memory = SimpleNamespace(**{f"{name}_size_in_bytes": 10**number for number, name in enumerate(names)})
    assert read_compiled(module_from(tpu_hlo.COMBINED), RING, memory).memory.host == 10**5 + 10**6 - 10**7 + 10**8
