"""Plans compiled in a worker process: for the attached devices, for TPUs that are not there, and every way in which that ends."""

import gzip
import importlib.util
import json
import os
import random
import re
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

from tests.support.run_programs import loss, plan
from workbench.cli.main import main
from workbench.engine import compile_plan, start_compile, why_not_compiled
from workbench.engine.compile import compile_cache, compile_targets
from workbench.engine.worker.failure_messages import compilation_failed
from workbench.errors import EngineError
from workbench.hardware.catalogue import parse_hardware
from workbench.models.registry import build
from workbench.public_plan import Plan
from workbench.reports.compiled import Compiled, CompiledCollective, CompiledKernel, CompiledMemory
from workbench.reports.run_events import Cancelled, CompileDone, Progress
from workbench.tracing import trace

pytestmark = pytest.mark.compile

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason='libtpu, the compiler for TPUs, is not installed: pip install "jax[tpu]"'
)


needs_cuda = pytest.mark.skipif(
    not any(importlib.util.find_spec(name) for name in ("jax_cuda13_plugin", "jax_cuda12_plugin")),
    reason='JAX\'s CUDA plug-in is not installed: pip install "jax[cuda13]"',
)


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    return tmp_path


def refused(of, hardware=None, **options):
    with pytest.raises(EngineError) as caught:
        compile_plan(of, hardware, **options)
    assert "Traceback" not in str(caught.value)
    return caught.value


@pytest.mark.cold
def test_a_compilation_tells_its_stages_and_then_what_came_out():
    events = []
    compiled = compile_plan(plan(), on_progress=events.append)
    assert list(dict.fromkeys(each.stage for each in events[:-1])) == ["starting", "lowering", "compiling", "reading"]
    assert all(each.elapsed >= 0 for each in events[:-1])
    assert events[-1] == CompileDone(compiled)
    assert compiled.target == "8 attached cpu"
    assert not compiled.from_cache
    assert {each.axes for each in compiled.collectives} == {("data",), ("model",)}


def test_what_nobody_waits_for_leaves_the_processor_to_others():
    priorities = set()

    def look(event):
        if isinstance(event, Progress):
            priorities.add(os.getpriority(os.PRIO_PROCESS, handle._process.pid))

    handle = start_compile(plan(), None, look, behind=True)
    handle.wait()
    assert min(priorities) > os.getpriority(os.PRIO_PROCESS, 0)


def test_why_a_plan_is_not_compiled_is_known_without_trying():
    assert why_not_compiled(plan()) == ""
    assert "16" in why_not_compiled(plan().updated(hardware=parse_hardware("TPU v5e 4x4")))


def test_the_same_plan_is_compiled_once():
    first = compile_plan(plan())
    again = compile_plan(plan())
    assert again == replace(first, from_cache=True)
    assert not compile_plan(plan("batch:data")).from_cache
    assert not compile_plan(plan(), keep=False).from_cache


def test_a_file_of_the_store_that_cannot_be_read_is_as_good_as_none(store):
    first = compile_plan(plan())
    (file,) = store.rglob("*.gz")
    for rubbish in (b"", b"no gzip", gzip.compress(b"no json"), gzip.compress(b"{}\nmodule")):
        file.write_bytes(rubbish)
        assert compile_cache.load(file.name.removesuffix(".gz")) is None
    file.write_bytes(b"torn")
    again = compile_plan(plan())
    assert not again.from_cache
    assert again.collectives == first.collectives


RECORD = Compiled(
    "TPU v5e 2x4",
    8,
    1.5,
    CompiledMemory(1, 2, 3, 4, 5, 6, 7, 8),
    (CompiledCollective("all-reduce", ("data", "model"), 8, 2, "mlp/up", "gpt.py:1", "ar.1", "", True, (3, 5), ("a", "b")),),
    (CompiledKernel("fusion.1", "fusion", 3, "mlp", "", None, 10, 20), CompiledKernel("copy.1", "copy", 1, "", "", 1e-6, 0, 5)),
    (("fusion.1", 4),),
    (("mlp/up", 4),),
    compiler="libtpu 0",
)


def test_what_is_stored_comes_back_whole():
    compile_cache.store("key", RECORD, b"module\n\x00")
    assert compile_cache.load("key") == (replace(RECORD, from_cache=True), b"module\n\x00")
    assert compile_cache.load("other") is None


def test_whatever_is_damaged_in_the_store_is_as_good_as_none_and_is_thrown_away(store):
    draw, module = random.Random(0), b"".join(b"%%a.%d\n" % i for i in range(200))
    compile_cache.store("key", RECORD, module)
    (file,) = store.rglob("*.gz")
    whole, stored = file.read_bytes(), (replace(RECORD, from_cache=True), module)
    for turn in range(300):
        at = draw.randrange(len(whole))
        damaged = whole[:at] if turn % 3 == 0 else whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :]
        file.write_bytes(damaged)
        found = compile_cache.load("key")
        assert found == stored or (found is None and not file.exists())  # a bit of the head's own file name, say, is none of the content
    compile_cache.store("key", RECORD, module)
    assert compile_cache.load("key") == stored


def test_a_user_without_a_home_has_no_store(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("WORKBENCH_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(compile_cache.Path, "home", homeless)
    compile_cache.store("key", RECORD, b"")
    assert compile_cache.load("key") is None


def test_what_a_killed_process_left_unfinished_goes_after_a_day(store):
    compile_cache.store("key", RECORD, b"")
    old, new = store / "compiled" / "old.json.123", store / "compiled" / "new.json.124"
    for each in (old, new):
        each.write_bytes(b"half")
    os.utime(old, (time.time() - 100_000, time.time() - 100_000))
    compile_cache.store("other", RECORD, b"")
    assert (old.exists(), new.exists(), compile_cache.load("key") is None) == (False, True, False)


def test_the_store_lets_go_of_what_was_not_used_for_longest(store):
    noise = bytes(33 + (i * i * 7919) % 90 for i in range(20_000))
    for number in range(4):
        compile_cache.store(f"key{number}", RECORD, noise)
        for file in store.rglob("*.gz"):
            os.utime(file, (time.time() - 100, time.time() - 100 + int(file.name[3])))
    size = next(store.rglob("*.gz")).stat().st_size
    compile_cache.load("key0")  # used now
    compile_cache.store("key4", RECORD, noise, limit=3 * size + 100)
    assert {each for each in range(5) if compile_cache.load(f"key{each}")} == {0, 3, 4}


def test_a_folder_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "file"))
    compile_cache.store("key", RECORD, b"")
    assert compile_cache.load("key") is None


def test_without_libtpu_the_way_out_is_to_install_it(monkeypatch):
    monkeypatch.setattr(compile_targets, "_is_installed", lambda _: False)
    error = refused(plan(), parse_hardware("TPU v5e 2x4"))
    assert error.message.startswith("Compiling for TPU v5e 2x4 needs libtpu")
    assert error.ways_out == ('pip install -e ".[tpu]" in the checkout',)
    error = refused(plan(), parse_hardware("8 H100"))
    assert "JAX's CUDA plug-in, which is not installed" in error.message


def test_a_chip_without_a_target_is_told():
    chip = replace(parse_hardware("TPU v5e 2x4").chip, name="abacus", target="")
    error = refused(plan(), replace(parse_hardware("TPU v5e 2x4"), chip=chip, name="8 abaci"))
    assert error.message == "There is no compiler for 8 abaci here: its chip `abacus` has no target."


def test_a_mesh_of_another_size_than_the_slice_is_told_with_both_sizes(monkeypatch):
    monkeypatch.setattr(compile_targets, "_is_installed", lambda _: True)
    error = refused(plan(), parse_hardware("TPU v5e 4x4"))
    assert error.message.startswith("The mesh data:4 model:2 is data 4 x model 2 = 8 devices; TPU v5e 4x4 has 16.")
    assert error.ways_out == ("make `data` 8", "make `model` 4", "choose hardware with 8 devices")


def test_a_function_that_fails_while_it_is_lowered_is_a_message_with_its_line():
    here = os.getpid()

    def fails_there(params, batch):
        if os.getpid() != here:
            raise ValueError("no such feature")
        return loss(params, batch)

    error = refused(plan(loss=fails_there))
    assert error.message.startswith(
        "The compilation of mlp for the attached devices stopped while lowering in `fails_there` (test_compile.py:"
    )
    assert error.message.endswith("ValueError: no such feature")


@pytest.mark.cold
def test_a_compiler_that_takes_its_process_along_is_told():
    here = os.getpid()

    def dies_there(params, batch):
        if os.getpid() != here:
            os.abort()
        return loss(params, batch)

    error = refused(plan(loss=dies_there))
    assert error.message.startswith("The worker process of mlp died while lowering, by SIGABRT.")
    assert error.ways_out[0] == "compile again"


def slow(params, batch):
    if os.environ.get("JAX_NUM_CPU_DEVICES"):  # in the worker, not here
        time.sleep(600)
    return loss(params, batch)


@pytest.mark.cold
def test_cancelling_ends_a_compilation():
    events = []
    handle = start_compile(plan(loss=slow), on_event=events.append)
    while not any(each.stage == "lowering" for each in events):
        time.sleep(0.05)
    handle.cancel()
    with pytest.raises(EngineError, match="The compilation of mlp was cancelled"):
        handle.wait()
    assert events[-1] == Cancelled()


def test_a_time_limit_ends_a_compilation_and_says_where_it_was():
    error = refused(plan(loss=slow), time_limit=5)
    assert error.message == "The compilation of mlp passed its time limit of 5.00 s while lowering."
    assert "scan the layers, so that only one is compiled" in error.ways_out


SUMS = (
    (
        "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (83.61G) exceeds "
        "available HBM (15.75G).",
        "ran out of memory on HBM, the total memory required for HLO temporaries (83.61G) exceeds available HBM (15.75G).",
    ),
    (
        "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 20.1G of 15.5G hbm. Exceeded hbm "
        "capacity by 4.6G.\n\nTotal hbm usage >= 20.6G:\n    reserved        530.00M\n",
        "ran out of memory in memory space hbm. Used 20.1G of 15.5G hbm. Exceeded hbm capacity by 4.6G.",
    ),
    (
        "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required (83.61G) exceeds available HBM "
        "(15.75G). HLO module: jit_call. See https://openxla.org/xla/errors/error_1000 for more details.",
        "ran out of memory on HBM, the total memory required (83.61G) exceeds available HBM (15.75G).",
    ),
)


@pytest.mark.parametrize(("said", "shown"), SUMS)
def test_a_plan_that_does_not_fit_is_told_with_the_compilers_own_sum(said, shown):
    error = compilation_failed(RuntimeError(said), plan(), "TPU v5e 2x4", "compiling")
    assert error.message == f"mlp does not fit on TPU v5e 2x4: {shown}"
    assert "make the batch smaller" in error.ways_out


def instructions(file):
    """Of HLO text, without the numbers of stack frames and what the compiler noted for itself, in no order."""
    return [re.sub(r" ?stack_frame_id=\d+|, backend_config=.*", "", line) for line in file.read_text().splitlines() if " = " in line]


def test_the_command_line_compiles_and_prints_figures(capsys, tmp_path):
    arguments = ["compile", "--model", "two_layer", "--mesh", "data:4 model:2", "--layout", "batch:data; hidden:model"]
    assert main([*arguments, "--hlo", str(tmp_path / "step.hlo")]) == 0
    printed = capsys.readouterr()
    assert "memory per device" in printed.out
    assert "all-reduce" in printed.out
    assert printed.err.split("\n")[:2] == ["starting ...", "lowering ..."]
    assert (tmp_path / "step.hlo").read_text().startswith("HloModule")
    assert main([*arguments, "--json", "--hlo", str(tmp_path / "again.hlo")]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["from_cache"]
    assert record["memory"]["peak"] > 0
    assert record["payload"]
    fresh, stored = (instructions(tmp_path / name) for name in ("step.hlo", "again.hlo"))
    assert len(fresh) > 10
    assert stored == fresh


@needs_libtpu
def test_a_plan_is_compiled_for_a_slice_that_is_not_there():
    layout = "batch:data; d_model:data; d_ff:model; heads:model; vocab:model; @embedding/add=[data, ?, ?]"
    of = Plan(build("gpt", layers=2), "data:4 model:2", layout, hardware="TPU v5e 2x4")
    compiled = compile_plan(of)
    assert compiled.target == "TPU v5e 2x4"
    assert compiled.compiler.startswith("libtpu")
    report = of.report()
    assert sum(each.flops * each.count for each in compiled.kernels) == report.flops.per_device
    assert compiled.by_axis_and_kind[("model",), "all-reduce"] == report.by_axis_and_kind[("model",), "all-reduce"]
    assert compiled.compute_seconds > 0
    assert report.memory.argument_bytes == compiled.memory.arguments  # in whole tiles
    assert sum(each.local_bytes for each in report.arguments) < report.memory.argument_bytes
    assert {each.source.partition(":")[0] for each in compiled.collectives} <= {"gpt.py", ""}


def multiply(x, w):
    with jax.named_scope("p"):
        return x @ w


@needs_libtpu
@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("layout", "groups"),
    [
        ("w=[a, b]; @p/dot_general=[-, -]", [("a", "b")]),
        ("x=[a+b, -]; w=[b, a]; @p/dot_general=[a+b, -]", [("a", "b")]),
        ("x=[a, -]; w=[a, b]; @p/dot_general=[a, -]", [("a",), ("b",)]),
    ],
)
def test_what_is_gathered_along_two_dimensions_is_gathered_once_unless_a_dot_takes_one_apart(layout, groups):
    """By the partitioner it is gathered twice; libtpu makes one of the two, but where the dot may go around with pieces of one."""
    program = trace(multiply, *(jax.ShapeDtypeStruct(each, "float32") for each in ((1024, 4096), (4096, 8192))))
    of = Plan(program, "a:2 b:4", layout, hardware="TPU v5e 2x4")
    planned, compiled = of.report().collectives, compile_plan(of).collectives
    assert sorted(each.axes for each in planned) == sorted(each.axes for each in compiled) == groups
    assert {each.part_of or each.kind for each in compiled} == {each.kind for each in planned} == {"all-gather"}
    assert max(each.payload for each in planned) == max(each.payload for each in compiled) == 2 * 4096 * 8192  # in bfloat16
    two = Plan(program, "a:2 b:4", layout).report().collectives
    assert sorted(each.axes for each in two) == [("a",), ("b",)]


SLICES = (
    "TPU v2 2x2",
    "TPU v3 2x2",
    "TPU v4 2x2x2",
    "TPU v5e 2x4",
    "TPU v5p 2x2x2",
    "TPU v6e 2x4",
    "TPU v7 2x2x1",
    "2 slices of TPU v5e 2x2",
)


@pytest.mark.share(2)
@needs_libtpu
@pytest.mark.parametrize("name", SLICES)
def test_every_slice_of_the_catalogue_is_one_the_compiler_knows(name):
    def tiny(params, batch):
        return jnp.mean(batch["x"] @ params["w1"] @ params["w2"])

    compiled = compile_plan(plan(loss=tiny), parse_hardware(name))
    assert (compiled.target, compiled.devices) == (name, 8)
    assert compiled.compute_seconds is not None


@needs_libtpu
def test_two_compilations_run_at_a_time():
    handles = [start_compile(plan(), parse_hardware("TPU v5e 2x4"), keep=False) for _ in range(2)]
    first, second = (handle.wait() for handle in handles)
    assert first.collectives == second.collectives


@needs_libtpu
def test_a_step_that_does_not_fit_is_refused_by_the_compiler():
    error = refused(Plan(build("gpt", preset="gpt2-small", batch=512, layers=1), "data:8", ""), parse_hardware("TPU v5e 2x4"))
    assert error.message.startswith("gpt gpt2-small does not fit on TPU v5e 2x4: ran out of memory")
    assert "exceeds available HBM" in error.message


@needs_libtpu
def test_a_slice_that_is_not_made_is_told():
    odd = parse_hardware("TPU v5e 2x4")
    chip = replace(odd.chip, target="tpu:v9")
    error = refused(plan(), replace(odd, chip=chip, name="TPU v9 2x4"))
    assert error.message.startswith("The compiler knows no TPU v9 2x4 (`v9:2x4`): INVALID_ARGUMENT")


@needs_cuda
@pytest.mark.parametrize("name", ["8 A100-80GB", "2 nodes of 4 H100", "8 H200", "8 B200"])
def test_a_plan_is_compiled_for_gpus_that_are_not_there(name):
    compiled = compile_plan(plan(), parse_hardware(name))
    assert (compiled.target, compiled.devices) == (name, 8)
    assert {each.axes for each in compiled.collectives} == {("data",), ("model",)}
    assert sum(each.flops * each.count for each in compiled.kernels) == plan().report().flops.per_device
