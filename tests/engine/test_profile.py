"""A step watched by the real profiler on eight CPU devices; and what a GPU's and a TPU's planes come to, as text protocol buffers."""

import errno
from pathlib import Path

import jax
import pytest

from tests.support.hlo_text import instruction_from, module_from
from tests.support.run_programs import MESH, plan
from workbench.core.mesh import Mesh
from workbench.engine import execute, run_plan
from workbench.engine.hlo.op_names import SourceLines
from workbench.engine.spmd.compiled_step import compile_step
from workbench.engine.spmd.profile_step import RawEvent, profile, raw_events, read_instructions
from workbench.reports.kernel import COMPUTE
from workbench.reports.run_events import Progress

pytestmark = pytest.mark.compile

PLANE = """
planes {{
  name: "{name}"
  lines {{ name: "{line}" timestamp_ns: 1000 events {{ metadata_id: 1 offset_ps: 500000 duration_ps: 2000000 {stats} }} }}
  lines {{ name: "XLA Modules" timestamp_ns: 1000 events {{ metadata_id: 1 offset_ps: 0 duration_ps: 9000000 }} }}
  event_metadata {{ key: 1 value {{ id: 1 name: "{event}" }} }}
  stat_metadata {{ key: 1 value {{ id: 1 name: "hlo_op" }} }}
  stat_metadata {{ key: 2 value {{ id: 2 name: "hlo_module" }} }}
}}
"""
OWN = 'stats { metadata_id: 1 str_value: "fusion.3" } stats { metadata_id: 2 str_value: "jit_call" }'

TEXT = """HloModule jit_call, is_scheduled=true

FileNames
1 "/home/me/train.py"
2 "JAX/_src/lax/lax.py"

FunctionNames
1 "loss"

FileLocations
1 {file_name_id=1 function_name_id=1 line=42 end_line=42 column=1 end_column=9}
2 {file_name_id=2 function_name_id=1 line=7 end_line=7 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}


%fused (p: f32[4,4]) -> f32[4,4] {
  %p = f32[4,4]{1,0} parameter(0)
  ROOT %dot.1 = f32[4,4]{1,0} dot(%p, %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main (x: f32[4,4]) -> f32[4,4] {
  %x = f32[4,4]{1,0} parameter(0)
  %fusion.3 = f32[4,4]{1,0} fusion(%x), kind=kCustom, calls=%fused, metadata={op_name="jit(call)/jvp(mlp)/dot_general" stack_frame_id=2}
  %start.1 = f32[4,4]{1,0} all-reduce-start(%fusion.3), replica_groups=[4,2]<=[8], to_apply=%add, metadata={op_name="jit(call)/mlp/add"}
  ROOT %done.1 = f32[4,4]{1,0} all-reduce-done(%start.1)
}
""".replace("JAX", str(Path(jax.__file__).parent))


@pytest.fixture(scope="module")
def measured():
    return execute(plan(), steps=3)


def test_a_run_tells_what_every_device_did(measured):
    trace = measured.trace
    assert [each.device for each in trace.devices] == list(range(8))
    assert all(0 < each.compute < trace.seconds for each in trace.devices)
    assert all(0 < each.exposed <= each.communication for each in trace.devices)
    assert trace.seconds < 60


def test_its_collectives_are_those_the_compiler_made(measured):
    assert {(each.stream, each.kind) for each in measured.trace.collectives} == {("+".join(axes), kind) for axes, kind in measured.compiled}
    assert all(0 < each.unwaited <= each.seconds for each in measured.trace.collectives)


def test_its_kernels_are_named_by_the_users_paths_and_lines(measured):
    products = [each for each in measured.trace.kernels if each.kind == "dot"]
    assert {each.path for each in products} >= {"dot_general"}
    assert {each.source.partition(":")[0] for each in products} == {"run_programs.py"}


def test_loops_are_told_by_what_runs_in_them():
    from workbench.models.registry import build
    from workbench.public_plan import Plan

    trace = execute(Plan(build("gpt", layers=3), "data:4 model:2", "batch:data; d_ff:model; heads:model"), steps=1).trace
    assert not {each.kind for each in trace.operations} & {"while", "call", "conditional"}
    in_loop = [each for each in trace.collectives if each.stream == "model"]
    assert in_loop
    assert {each.count for each in in_loop} == {3}


def test_watching_a_step_is_left_out_when_it_is_not_wanted():
    events = []
    assert execute(plan(), steps=1, on_event=events.append, profile=False).trace is None
    assert "profiling" not in [each.stage for each in events if isinstance(each, Progress)]


def test_a_profiler_that_is_taken_is_a_note_and_the_other_one_goes_on(tmp_path):
    step = compile_step(plan())
    with jax.profiler.trace(str(tmp_path)):
        trace, why_not = profile(step, step.arguments(0))
    assert trace is None
    assert why_not.startswith("the profiler did not start: ")
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_no_folder_to_write_in_is_a_note(monkeypatch):
    def fails(**_):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("workbench.engine.spmd.profile_step.tempfile.TemporaryDirectory", fails)
    step = compile_step(plan())
    assert profile(step, step.arguments(0)) == (
        None,
        "no folder for the profiler's output: No usable temporary directory found",
    )


def test_a_file_that_cannot_be_read_is_a_note(monkeypatch):
    def broken(_):
        raise RuntimeError("cut off")

    monkeypatch.setattr("workbench.engine.spmd.profile_step.jax.profiler.ProfileData.from_file", broken)
    measured = execute(plan(), steps=1)
    assert measured.trace is None
    assert measured.why_untraced == "the profiler's output cannot be read: RuntimeError: cut off"
    assert "Not profiled: the profiler's output cannot be read" in str(measured)


def test_the_trace_comes_back_from_the_worker():
    measured = run_plan(plan(), steps=1)
    assert len(measured.trace.devices) == 8
    assert measured.why_untraced == ""


@pytest.mark.parametrize(
    ("plane", "expected"),
    [
        ({"name": "/device:GPU:3", "line": "Stream #7(Compute)", "event": "gemm_kernel", "stats": OWN}, "fusion.3"),
        ({"name": "/device:GPU:3", "line": "Stream #9(MemcpyD2D)", "event": "memcpy", "stats": ""}, "memcpy"),
        ({"name": "/device:TPU:3", "line": "XLA Ops", "event": "%fusion.3 = f32[4,4]{1,0} fusion(%x)", "stats": ""}, "fusion.3"),
    ],
    ids=["kernel", "copy", "tpu"],
)
def test_a_device_plane_is_read_by_its_streams_alone(plane, expected):
    data = jax.profiler.ProfileData.from_serialized_xspace(jax.profiler.ProfileData.text_proto_to_serialized_xspace(PLANE.format(**plane)))
    assert list(raw_events(data, "jit_call")) == [RawEvent(3, expected, 1500, 2000)]


def test_kernels_of_another_program_are_left_out():
    text = PLANE.format(name="/device:GPU:0", line="Stream #7(Compute)", event="gemm", stats=OWN)
    data = jax.profiler.ProfileData.from_serialized_xspace(jax.profiler.ProfileData.text_proto_to_serialized_xspace(text))
    assert list(raw_events(data, "jit_other")) == []


def test_every_instruction_has_its_place_in_the_plan():
    known = read_instructions(module_from(TEXT), Mesh(MESH))
    assert known["fusion.3"] == (COMPUTE, "dot", "mlp/dot_general", "train.py:42")
    assert known["start.1"] == ("model", "all-reduce", "mlp/add", "")
    assert known["done.1"][:2] == ("model", "all-reduce")


def test_the_innermost_line_that_is_the_users_is_named():
    module = module_from(TEXT)
    lines, entry = SourceLines(module), module.computations[module.entry]
    written = instruction_from('f32[4] negate(%p0), metadata={source_file="/home/me/model.py" source_line=3}', "f32[4]")
    unknown = instruction_from("f32[4] negate(%p0), metadata={stack_frame_id=9}", "f32[4]")
    found = [lines.of(each) for each in (entry["fusion.3"], unknown, written, entry["done.1"])]
    assert found == ["train.py:42", "", "model.py:3", ""]
