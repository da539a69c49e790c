"""The third-party programs of `benchmarks/accuracy.py`: what needs none of their packages, and a tenth of the answers compiled anew."""

import json
import re
import tomllib
from hashlib import sha256
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
import pytest

from benchmarks.corpus.answers import FOLDER, Answer, Answers, answer_of, digest_of, parse_answers, read_answers, versions_of, write_answers
from benchmarks.corpus.judge import Judged, LeftOut, compare_answer, judge_programs
from benchmarks.corpus.layouts import DATA_PARALLEL, MEGATRON, MESHES, Draws, StatedLayout, draw_layout
from benchmarks.corpus.program import LAYOUTS, TARGET, ThirdPartyProgram
from benchmarks.corpus.split import half_of
from benchmarks.corpus.third_party import PROGRAMS
from tests.support.choosing import parametrize_drawn
from workbench.analysis.analyze import analyze
from workbench.core.mesh import Mesh
from workbench.engine import compile_plan
from workbench.hardware.catalogue import parse_hardware
from workbench.reports.collective import KINDS, collective_class
from workbench.tracing import trace_training

pytestmark = pytest.mark.compile

EXTRA = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]["corpus"]
CLASSES = {collective_class(kind) for kind in KINDS}
S = jax.ShapeDtypeStruct


PINNED = ["d_ff:b; batch:b; d_model:a; second=[b+a, -]; first=[-, a]", "d_model:a; d64:a; first=[a, -]; batch=[a, -]"]


def small():
    def loss(params, batch):
        return jnp.mean((jnp.tanh(batch @ params["first"]) @ params["second"]) ** 2)

    params = {"first": S((64, 256), "float32"), "second": S((256, 64), "float32"), "odd": S((7, 5), "float32")}
    dims = {"batch": "batch d_model", "first": "d_model d_ff"}
    return trace_training(loss, params, S((64, 64), "float32"), optimizer=optax.adam(1e-3), dims=dims, name="small")


HAND_MADE = ThirdPartyProgram("hand_made", "two products", (), small, tensor_parallel=MEGATRON)


def test_the_half_is_the_parity_of_the_digest_of_the_name():
    for each in PROGRAMS:
        assert (each.half == "tested") == (int(sha256(each.name.encode()).hexdigest(), 16) % 2 == 1)
    halves = [each.half for each in PROGRAMS]
    assert min(halves.count("tested"), halves.count("fitted")) >= len(halves) // 3
    assert (half_of("flax_llama"), half_of("flax_gpt2")) == ("tested", "fitted")


def test_programs_have_names_of_their_own_and_packages_that_the_extra_pins():
    pinned = {re.split(r"[\[=]", each)[0] for each in EXTRA}
    assert all("==" in each for each in EXTRA)
    assert len({each.name for each in PROGRAMS}) == len(PROGRAMS) >= 20
    assert {package for each in PROGRAMS for package in each.packages} <= pinned


def test_draws_are_the_digests_of_seed_and_count():
    draws = Draws("seed")
    expected = [int(sha256(f"seed/{count}".encode()).hexdigest(), 16) % 100 for count in range(1, 7)]
    assert [draws.below(100) for _ in expected] == expected
    assert [draw_layout(small(), seed).statements for seed in ("0", "1")] == PINNED


def test_a_random_layout_depends_on_its_seed_alone():
    program = small()
    drawn = {seed: draw_layout(program, seed) for seed in map(str, range(20))}
    assert drawn == {seed: draw_layout(small(), seed) for seed in drawn}
    assert len({(each.mesh, each.statements) for each in drawn.values()}) > 15
    assert draw_layout(program, "hand_made/random 1") == HAND_MADE.layout("random 1")


def test_random_layouts_are_legal_on_eight_devices_and_split_something():
    program = small()
    for seed in map(str, range(40)):
        stated = draw_layout(program, seed)
        plan = stated.plan(program, seed)
        assert stated.mesh in MESHES
        assert plan.mesh.size == Mesh(stated.mesh).size == 8
        assert any(axes for sharding in plan.argument_shardings for axes in sharding.dims)


def test_stated_layouts_take_recipes_in_order():
    plan = StatedLayout("data:2 model:4", recipes=("data_parallel", "megatron")).plan(small(), "both")
    assert str(plan.layout) == "batch:data; d_ff:model"
    assert str(DATA_PARALLEL.plan(small(), "one").layout) == "batch:data"
    assert HAND_MADE.plan("zero 3").hardware == parse_hardware(TARGET)


def answered(plan, **changes):
    """Answers that are what is predicted, but for `changes`."""
    report = analyze(plan)
    payload = {}
    for (axes, kind), size in report.by_axis_and_kind.items():
        key = f"{'+'.join(axes)}/{collective_class(kind)}"
        payload[key] = payload.get(key, 0) + size
    figures = {"payload": payload, "peak": report.memory.peak, "kernel_seconds": report.step_time.estimate}
    return Answer(str(plan.mesh), digest_of(plan), **{**figures, **changes})


def test_a_prediction_is_judged_by_the_answer():
    plan = HAND_MADE.plan("data parallel")
    same = compare_answer(plan, answered(plan), "tested")
    assert same == Judged(
        "hand_made/data parallel",
        "tested",
        "planned",
        is_exact=True,
        memory=0.0,
        time=0.0,
        inside=dict.fromkeys(("sent", "memory", "kernels"), True),
    )
    peak = analyze(plan).memory.peak
    other = compare_answer(plan, answered(plan, peak=2 * peak, payload={"data/all-gather": 8}, kernel_seconds=0.0), "fitted")
    assert other.inside["sent"] is False
    assert other == Judged(
        "hand_made/data parallel", "fitted", "planned", is_exact=False, memory=pytest.approx(-0.5), time=None, inside=other.inside
    )


def test_an_answer_of_other_versions_another_program_or_another_layout_is_stale():
    plan, versions = HAND_MADE.plan("data parallel"), {"jax": "1"}
    answers = Answers("hand_made", plan.program.fingerprint, TARGET, versions, {"data parallel": answered(plan)})
    assert answers.why_stale("data parallel", plan, versions) == ""
    assert answers.why_stale("zero 3", plan, versions) == "not recorded"
    assert answers.why_stale("data parallel", plan, {"jax": "2"}) == "recorded with jax 1, now 2"
    assert answers.why_stale("data parallel", HAND_MADE.plan("zero 3"), versions) == "the layout is another"
    other = Answers("hand_made", "another", TARGET, versions, answers.layouts)
    assert other.why_stale("data parallel", plan, versions) == "the program's StableHLO is another"


def test_answers_are_read_as_they_were_written(tmp_path):
    plan = HAND_MADE.plan("tensor parallel")
    refused = Answer("data:8", "digest", refused="no")
    answers = Answers("hand_made", "fingerprint", TARGET, {"jax": "1"}, {"tensor parallel": answered(plan), "zero 3": refused})
    write_answers(answers, tmp_path)
    assert read_answers("hand_made", tmp_path) == answers
    assert read_answers("nobody", tmp_path) is None


def test_programs_whose_packages_are_missing_are_left_out_once():
    absent = ThirdPartyProgram("absent", "none", ("no-such-distribution",), small, tensor_parallel=MEGATRON)
    assert list(judge_programs([absent])) == [LeftOut("absent", absent.half, "no-such-distribution not installed")]
    assert list(judge_programs([absent], "another")) == []
    assert [each.reason for each in judge_programs([HAND_MADE], "random")] == ["not recorded"] * 3


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.json")), ids=lambda file: file.stem)
def test_recorded_answers_have_their_schema(file):
    answers = parse_answers(json.loads(file.read_text(encoding="utf-8")))
    program = next(each for each in PROGRAMS if each.name == file.stem)
    assert (answers.program, answers.target) == (program.name, TARGET)
    assert {"jax", "jaxlib", "libtpu", *program.packages} == set(answers.versions)
    assert all(answers.versions.values())
    assert set(answers.layouts) <= set(LAYOUTS)
    for answer in answers.layouts.values():
        mesh = Mesh(answer.mesh)
        assert mesh.size == 8
        assert all(set(axes) <= set(mesh.names) and kind in CLASSES for axes, kind in answer.volumes)
        assert answer.refused or min(answer.peak, answer.analysed_peak, answer.kernel_seconds) > 0


def test_recorded_answers_are_small():
    assert sum(file.stat().st_size for file in FOLDER.glob("*.json")) < 1_000_000


QUICK = 8.0
"""Seconds, as recorded: an answer that takes libtpu longer is compiled anew in nightly runs only."""


def pytest_generate_tests(metafunc):
    """In every run one of the answers that are compiled quickly."""
    if "quick" in metafunc.fixturenames:
        quick = [(each, layout) for each, layout, answer in recorded_answers() if 0 < answer.compile_seconds < QUICK and not each.missing]
        parametrize_drawn(metafunc, "quick", quick, lambda _: (), name_of, share=max(1, len(quick)))


def recorded_answers():
    """Each program with a layout and the answer that is recorded of it."""
    return [(each, layout, answer) for each in PROGRAMS if (found := read_answers(each.name)) for layout, answer in found.layouts.items()]


def recorded_tenth():
    """One case in ten of those recorded, by the digest of its name."""
    names = [(each, layout) for each, layout, _ in recorded_answers()]
    return [(each, layout) for each, layout in names if sha256(f"{each.name}/{layout}".encode()).digest()[0] % 10 == 0]


def name_of(case):
    return f"{case[0].name}-{case[1]}"


def known_and_found(program, layout):
    """The recorded answer, and the one compiled now. Skips the test where a package is missing or the record is of other versions."""
    if program.missing:
        pytest.skip(f"{', '.join(program.missing)} not installed (pip install -e '.[corpus]')")
    answers = read_answers(program.name)
    assert answers is not None
    plan = program.plan(layout)
    if stale := answers.why_stale(layout, plan, versions_of(program)):
        pytest.skip(f"the answer is stale: {stale}")
    return answers.layouts[layout], answer_of(plan, compile_plan(plan, keep=False))


def verify_stated(known, found):
    """What libtpu states, not what is read into it."""
    assert (found.payload, found.analysed_peak, found.kernel_seconds) == (
        known.payload,
        known.analysed_peak,
        pytest.approx(known.kernel_seconds),
    )


@pytest.mark.filterwarnings("default")  # the packages warn of each other
def test_an_answer_that_is_compiled_quickly_is_the_recorded_one(quick):
    verify_stated(*known_and_found(*quick))


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("tenth", recorded_tenth(), ids=name_of)
def test_a_tenth_of_the_answers_is_compiled_anew(tenth):
    known, found = known_and_found(*tenth)
    verify_stated(known, found)
    assert found.peak == pytest.approx(known.peak, rel=0.01)  # what is read into libtpu's temporaries may be another by now
