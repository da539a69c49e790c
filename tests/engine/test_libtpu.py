"""libtpu asked for its scheduled program: what it sends, holds and computes, against what it compiles."""

import os
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.engine.test_compile import needs_libtpu
from tests.support import recorded
from tests.support.recorded import MEMORY as MEMORY_PARTS
from tests.support.recorded import Answer, Record, sent_by_class
from workbench.analysis.analyze import analyze
from workbench.analysis.prediction_intervals import KERNELS, MEMORY, SENT, ranges_of
from workbench.engine.partitioner.libtpu_client import asks_libtpu
from workbench.engine.partitioner.partitioner_client import WarmWorker
from workbench.engine.partitioner.plan_partitioning import partition_plan
from workbench.errors import PartitionError
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.collective import collective_class
from workbench.reports.compiled import Scheduled
from workbench.reports.diagnostic import DOES_NOT_FIT
from workbench.session.figure_tiers import settled_report
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.tracing import trace, trace_training
from workbench.widgets.board.tier_marks import settling_record, tier_of

pytestmark = needs_libtpu

V5E = parse_hardware("TPU v5e 2x4")
F32 = jnp.float32


def spec(*shape, dtype=F32):
    return jax.ShapeDtypeStruct(shape, dtype)


def words(*shape):
    return spec(*shape, dtype=jnp.int32)


def summed_over_two(x, y):
    return jnp.einsum("bsd,bse->de", x, y)


def two_sums_added(x, y, w, v):
    return jnp.tanh(x @ w + y @ v)


def weights_gathered(x, w):
    return jnp.tanh(x @ w).sum(1)


def vector_gathered(x, scale):
    return jnp.tanh(x) * scale


def twice_the_same(x, w):
    return jnp.sin(x) @ w, jnp.sin(x) @ (w + 1)


def tied(table, ids):
    """The gradient of an embedding that is the last product's weight, too."""
    return jax.grad(lambda t: jnp.sum(jnp.tanh(t[ids]) @ t.T) ** 2)(table)


def read_twice(table, ids, more):
    """The gradient of an embedding that an encoder and a decoder read."""
    return jax.grad(lambda t: jnp.sum(jnp.tanh(t[ids])) ** 2 + jnp.sum(jnp.sin(t[more])))(table)


def tied_and_read_twice(table, ids, more):
    return jax.grad(lambda t: jnp.sum(jnp.tanh(t[ids]) @ t.T) ** 2 + jnp.sum(jnp.sin(t[more])))(table)


def recurrent(w, x):
    """The gradient of a recurrent network's weight, added up turn after turn."""

    def loss(w):
        last, _ = jax.lax.scan(lambda h, each: (jnp.tanh(h @ w + each), None), jnp.zeros_like(x[0]), x)
        return jnp.sum(last**2)

    return jax.grad(loss)(w)


def weight_used_twice_a_turn(w, x):
    """Two sums a turn that are added to one another's: they stay in the loop."""

    def loss(w):
        last, _ = jax.lax.scan(lambda h, each: (jnp.tanh(jnp.sin(h @ w) @ w + each), None), jnp.zeros_like(x[0]), x)
        return jnp.sum(last**2)

    return jax.grad(loss)(w)


def pixels(x, w):
    """Whole numbers that are made floats, scaled and multiplied."""
    return jnp.tanh(x.astype(F32).reshape(64 * 16, 256) / 255.0 @ w)


def routed(x, w):
    """The weights of the two experts that a router picks."""
    best, which = jax.lax.top_k(x @ w, 2)
    return jax.nn.one_hot(which, 8).sum(1) * best.sum(-1, keepdims=True)


def rows_at(x, places, w):
    """What a text says at its last word, say."""
    return jnp.tanh((x @ w)[jnp.arange(x.shape[0]), places])


def weight_of_rows_at(x, places, w):
    return jax.grad(lambda w: jnp.sum(rows_at(x, places, w) ** 2))(w)


def cross_entropy(x, labels):
    """The gradient of the loss as it is most often written."""
    return jax.grad(lambda x: -jnp.mean(jax.nn.log_softmax(x)[jnp.arange(x.shape[0]), labels]))(x)


def elements_at(x, columns):
    """Rows that are picked in an order of their own are no batch."""
    return x[jnp.arange(x.shape[0])[::-1], columns]


def largest_numbers(x):
    return jax.lax.top_k(x * 2, 3)


PROGRAMS = [
    (summed_over_two, (spec(16, 32, 256), spec(16, 32, 256)), "x:2 y:4", "x=[x, y, -]; y=[x, y, -]"),
    (two_sums_added, (spec(256, 512),) * 2 + (spec(512, 256),) * 2, "m:8", "x=[-, m]; y=[-, m]; w=[m, -]; v=[m, -]"),
    (weights_gathered, (spec(1024, 256), spec(256, 256)), "m:8", "x=[m, -]; w=[m, -]"),
    (vector_gathered, (spec(16, 64), spec(64)), "m:8", "x=[m, -]; scale=[m]"),
    (twice_the_same, (spec(1024, 256), spec(256, 256)), "m:8", "x=[-, m]; w=[-, m]"),
    (tied, (spec(512, 256), words(16, 8)), "m:8", "ids=[m, -]"),
    (read_twice, (spec(512, 256), words(16, 8), words(16, 8)), "m:8", "ids=[m, -]; more=[m, -]"),
    (read_twice, (spec(512, 256), words(16, 8), words(16, 4)), "m:8", "ids=[m, -]; more=[m, -]"),
    (tied_and_read_twice, (spec(512, 256), words(16, 8), words(16, 8)), "m:8", "ids=[m, -]; more=[m, -]"),
    (tied_and_read_twice, (spec(512, 256), words(64, 8), words(64, 8)), "m:8", "ids=[m, -]; more=[m, -]"),
    (recurrent, (spec(256, 256), spec(12, 64, 256)), "m:8", "x=[-, m, -]"),
    (weight_used_twice_a_turn, (spec(256, 256), spec(12, 64, 256)), "m:8", "x=[-, m, -]"),
    (routed, (spec(256, 64), spec(64, 8)), "m:8", "x=[m, -]"),
    (routed, (spec(256, 64), spec(64, 8)), "m:8", "x=[-, -]; w=[-, m]"),
    (largest_numbers, (words(64, 32),), "m:8", "x=[m, -]"),
    (rows_at, (spec(64, 32, 128), words(64), spec(128, 256)), "m:8", "x=[m, -, -]; places=[m]"),
    (weight_of_rows_at, (spec(64, 32, 128), words(64), spec(128, 256)), "m:8", "x=[m, -, -]; places=[m]"),
    (cross_entropy, (spec(64, 128), words(64)), "m:8", "x=[m, -]; labels=[m]"),
    (cross_entropy, (spec(64, 128), words(64)), "m:8", "x=[-, m]"),
    (elements_at, (spec(64, 128), words(64)), "m:8", "x=[m, -]; columns=[m]"),
    (pixels, (spec(64, 16, 256, dtype=jnp.uint8), spec(256, 128)), "m:8", "x=[-, m, -]"),
]


def by_class(volumes):
    totals = Counter()
    for (axes, kind), payload in volumes.items():
        totals[axes, collective_class(kind)] += payload
    return +totals


def plan_of(fn, shapes, mesh, layout):
    return Plan(trace(fn, *shapes, name=fn.__name__), mesh, layout, hardware=V5E)


def gpt(**changes):
    layout = "batch:data; d_ff:model; heads:model; vocab:model"
    return Plan(build("gpt", scan=False, **changes), "data:4 model:2", layout, hardware=V5E)


@pytest.fixture(scope="module")
def warm():
    warm = WarmWorker()
    yield warm
    warm.close()


@pytest.mark.share(3)
@pytest.mark.parametrize(("fn", "shapes", "mesh", "layout"), PROGRAMS, ids=lambda each: getattr(each, "__name__", ""))
def test_what_is_sent_and_held_is_what_libtpu_compiles(fn, shapes, mesh, layout, record):
    """Programs of which it sends other than XLA's partitioner says in general."""
    plan = plan_of(fn, shapes, mesh, layout)
    compiled, asked = record.answer(plan), partition_plan(plan, keep=False)
    assert sent_by_class(asked.by_axis_and_kind) == compiled.sent
    assert {name: getattr(asked.scheduled.memory, name) for name in MEMORY_PARTS} == compiled.memory


def test_a_recorded_answer_is_compiled_anew_where_it_is_drawn_or_of_other_versions(tmp_path, monkeypatch):
    plan, said = plan_of(*PROGRAMS[3]), Answer({"m/gather": 8}, dict.fromkeys(MEMORY_PARTS, 1))
    monkeypatch.setattr(recorded, "compiled_answer", lambda *_: said)
    file = tmp_path / "libtpu.json"
    Record(0, update=True, file=file).answer(plan)
    runs = [Record(seed, file=file) for seed in range(100)]
    assert {run.answer(plan) == said for run in runs} == {True}
    assert 2 <= sum(bool(run.compiled) for run in runs) <= 25
    monkeypatch.setattr(recorded, "compiled_answer", lambda *_: said._replace(sent={}))
    drawn = next(run.seed for run in runs if run.compiled)
    with pytest.raises(AssertionError, match="otherwise than is recorded"):
        Record(drawn, file=file).answer(plan)
    with pytest.raises(AssertionError, match="is not recorded"):
        Record(0, file=file).answer(plan_of(*PROGRAMS[0]))
    monkeypatch.setattr(recorded, "versions", lambda: {"libtpu": "another"})
    assert [Record(seed, file=file).answer(plan).sent for seed in range(5)] == [{}] * 5


@pytest.mark.parametrize("fn", [tied, recurrent, weight_used_twice_a_turn])
def test_what_changes_a_figure_by_half_is_planned(fn):
    """At once, before libtpu is asked: or as often as a loop turns."""
    plan = plan_of(*next(each for each in PROGRAMS if each[0] is fn))
    assert by_class(plan.report().by_axis_and_kind) == by_class(plan.partition().by_axis_and_kind)


def test_a_training_step_settles_to_the_compilers_memory_and_kernels():
    plan = gpt(layers=2)
    report, compiled = plan.report("partitioned"), plan.compile(keep=False)
    assert isinstance(report.compiled, Scheduled)
    assert (report.tier, report.prediction.tier, report.has_compiled_times) == ("compiled", "partitioned", False)
    assert report.partitioned.compiler == report.compiled.compiler == compiled.compiler
    assert report.memory.peak == compiled.memory.peak
    assert report.step_time.estimate == pytest.approx(compiled.compute_seconds, rel=0.15)
    assert report.compiled.kernels == pytest.approx(sum(each.count for each in compiled.kernels), rel=0.02)
    assert report.seconds == report.step_time.total
    assert {SENT, MEMORY}.isdisjoint(ranges_of(report))
    assert KERNELS in ranges_of(report)


def test_each_collective_is_joined_to_its_operation():
    plan = gpt(layers=2)
    report, planned = plan.report("partitioned"), plan.report()
    assert {each.path for each in report.collectives} <= {each.path for each in plan.program.operations}
    assert {each.source for each in report.collectives if "attention/output" in each.path} == {
        each.source for each in planned.collectives if "attention/output" in each.path
    }


def test_a_program_that_finds_no_room_has_its_figures_and_the_compilers_words():
    fn = jax.grad(lambda w, x: jnp.sum(jnp.tanh(jnp.tanh(x @ w) @ w) ** 2))
    plan = Plan(trace(fn, spec(16384, 16384), spec(8 * 98304, 16384), name="large"), "m:8", "x=[m, -]", hardware=V5E)
    report = plan.report("partitioned")
    assert report.compiled.out_of_memory.startswith("RESOURCE_EXHAUSTED")
    assert not report.memory.fits
    (note,) = (each for each in report.diagnostics if each.kind == DOES_NOT_FIT)
    assert note.message.startswith("One device holds")


def test_what_libtpu_cannot_compile_is_asked_of_the_partitioner():
    plan = gpt(layers=1)
    assert asks_libtpu(plan, V5E)
    assert not asks_libtpu(plan, parse_hardware("TPU v5e 4x4"))  # another number of devices
    assert not asks_libtpu(plan, parse_hardware("8 H100"))
    assert not asks_libtpu(plan, None)
    three = Plan(build("gpt", layers=1), "data:2 model:3", "batch:data", hardware="TPU v5e 2x3")
    for answer in (plan.partition("TPU v5e 4x4"), three.partition()):  # libtpu knows no slice of 2x3
        assert (answer.platform, answer.scheduled) == ("tpu", None)
        assert answer.compiler.startswith("XLA of jaxlib")


def test_an_answer_is_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    plan = gpt(layers=1)
    first = plan.partition()
    assert within(lambda: list(tmp_path.rglob("partitioned/*.json")))  # written by the thread that answers
    monkeypatch.setattr("workbench.engine.partitioner.plan_partitioning.shared_worker", None)  # nobody is asked again
    assert plan.partition() == first
    assert first.scheduled is not None


def children(pid):
    with suppress(OSError):
        files = Path(f"/proc/{pid}/task").glob("*/children")
        return [int(each) for file in files for each in file.read_text().split()]
    return []


def is_there(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    return False


def within(is_so, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not (found := is_so()) and time.monotonic() < deadline:
        time.sleep(0.002)
    return found


def compiling(warm):
    """The process that asks libtpu, and the child that compiles in it."""
    (asks,) = within(lambda: children(warm.pid) if warm.pid else ())
    (child,) = within(lambda: children(asks))
    return asks, child


def under_way(warm):
    """A question that a warm process is at, the process that asks libtpu, and the child that compiles in it."""
    warm.ask(gpt(layers=1), V5E).result(60)
    asked = warm.ask(gpt(layers=1), V5E)
    return asked, *compiling(warm)


def test_a_compiler_that_dies_is_a_message_and_the_next_question_is_answered(warm):
    asked, _, child = under_way(warm)
    os.kill(child, signal.SIGKILL)
    with pytest.raises(PartitionError, match="XLA:TPU ended by SIGKILL while it compiled"):
        asked.result(60)
    assert warm.ask(gpt(layers=1), V5E).result(60).scheduled is not None


def test_a_process_that_dies_is_a_message_and_another_one_answers(warm):
    asked, asks, child = under_way(warm)
    os.kill(asks, signal.SIGKILL)
    with pytest.raises(PartitionError, match="The process that runs libtpu ended by SIGKILL"):
        asked.result(60)
    assert within(lambda: not is_there(child))
    assert warm.ask(gpt(layers=1), V5E).result(60).scheduled is not None


def test_a_cancelled_question_ends_with_its_fork_alone(warm):
    asked, asks, child = under_way(warm)
    pid = warm.pid
    warm.cancel(asked)
    with pytest.raises(PartitionError, match="cancelled"):
        asked.result(0)  # at once: nobody waits for the fork
    assert within(lambda: not is_there(child))
    assert warm.ask(gpt(layers=1), V5E).result(60).scheduled is not None
    assert (warm.pid, children(pid)) == (pid, [asks])


def test_with_the_process_its_fork_and_what_it_wrote_are_gone(warm):
    asked, *rest = under_way(warm)
    processes = (warm.pid, *rest)
    warm.close()
    with pytest.raises(PartitionError):
        asked.result(60)
    assert within(lambda: not any(map(is_there, processes)))
    warm.ask(gpt(layers=1), V5E).result(60)
    assert not [each for each in Path("/dev/shm").glob("workbench-programs-*") if each.name.split("-")[2] in map(str, processes)]


def test_the_process_that_forks_has_no_thread(warm):
    """Another thread's locks would stay locked in a fork."""
    warm.ask(gpt(layers=1), V5E).result(60)
    (asks,) = children(warm.pid)
    assert [each.name for each in Path(f"/proc/{asks}/task").iterdir()] == [str(asks)]


def test_a_report_and_a_board_say_whose_figures_these_are():
    report = gpt(layers=1).report("partitioned")
    libtpu = report.compiled.compiler
    assert f"as {libtpu} schedules it for TPU v5e 2x4" in " ".join(str(report).split())
    assert [tier_of(key, report) for key in ("memory", "sent", "predicted", "flops")] == ["compiled", "compiled", "partitioned", "planned"]
    text = settling_record(None, report)["text"]
    assert text == f"by {libtpu}: communication and memory; kernel times estimated"


def test_part_of_a_mesh_axis_is_said_to_be_part_of_it():
    plan = Plan(trace(lambda x: x.reshape(4, 2, 64, 256).sum(1), spec(8, 64, 256), name="folded"), "m:8", "x=[m, -, -]", hardware=V5E)
    report, general = plan.report("partitioned"), analyze(plan, answer=ask_partitioner(plan, "tpu"))
    assert report.sent == general.sent > 0
    assert any("(" in axis for each in report.partitioned.collectives for axis in each.axes)


def test_a_sum_is_joined_to_what_reads_it():
    answer = gpt(layers=2).partition()
    sums = [each for each in answer.collectives if each.kind == "all-reduce"]
    assert sums
    assert any(each.read_by >= 0 for each in sums)


def test_once_compiled_what_is_sent_stays_settled():
    plan = gpt(layers=1)
    report = plan.report("compiled")
    assert report.is_compiled
    assert SENT not in ranges_of(report)
    assert tier_of("sent", report) == "compiled"


def test_one_chip_is_asked_about_too():
    plan = Plan(build("gpt", layers=1), "data:1", hardware="TPU v5e 1x1")
    report, why = settled_report(plan, partition_plan)
    assert why == ""
    assert report.memory.peak == plan.compile(keep=False).memory.peak


def language_model(params, tokens):
    """The loss of a table that is looked up, and multiplied by as the last weight where there is no other one."""
    return jnp.mean(jax.nn.logsumexp(jnp.tanh(params["table"][tokens]) @ params.get("head", params["table"]).T, -1))


def convolution(params, x):
    found = jax.lax.conv_general_dilated(x, params["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jnp.mean(jnp.tanh(found))


@pytest.mark.parametrize(
    ("loss", "params", "batch"),
    [
        (language_model, {"table": spec(512, 256)}, words(64, 8)),
        (language_model, {"table": spec(2048, 256)}, words(64, 8)),
        (language_model, {"table": spec(512, 256), "head": spec(512, 256)}, words(64, 8)),
        (convolution, {"kernel": spec(3, 3, 64, 64)}, spec(64, 16, 16, 64)),
    ],
)
def test_weights_under_zero_3_are_planned_as_libtpu_compiles_them(loss, params, batch, record):
    """To 2 %: it sends the few bytes of scales and scalars in ways of its own."""
    plan = Plan(trace_training(loss, params, batch, optimizer=optax.adam(1e-3), dims={"batch": "batch ..."}), "data:8", hardware=V5E)
    plan = plan.recipe("data_parallel").recipe("zero_3")
    planned = sent_by_class(analyze(plan).by_axis_and_kind)
    assert planned == pytest.approx(record.answer(plan).sent, rel=0.02)


def complex_products(x, w):
    return x.T @ (x @ w)


@pytest.mark.parametrize(("mesh", "layout"), [("m:8", "x=[m, -]"), ("m:2 n:4", "x=[m, -]; w=[-, n]"), ("m:8", "x=[-, m]; w=[m, -]")])
def test_sums_of_complex_products_are_planned_as_libtpu_makes_them_of_real_ones(mesh, layout, record):
    plan = plan_of(complex_products, (spec(2048, 256, dtype="complex64"), spec(256, 512, dtype="complex64")), mesh, layout)
    assert sent_by_class(analyze(plan).by_axis_and_kind) == record.answer(plan).sent
