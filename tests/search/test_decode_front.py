"""Latency against throughput of decoding: what each batch and slice makes, which are on the front, and what is said of the others."""

import json

import pytest

from workbench.cli.main import main
from workbench.core.mesh import Mesh
from workbench.errors import SearchError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.latency_front import DecodePoint
from workbench.search.decode_front import latency_front, mark_front, meshes_of

pytestmark = pytest.mark.compile

LAYOUT = "batch:data; kv_heads:model; d_ff:model; vocab:model"
SLICES = ("TPU v5e 2x2", "TPU v5e 2x4")


@pytest.fixture(scope="module")
def plan():
    program = build("decoder_decode", preset="llama3-8b", seq=2048, weights="int8", cache="int8")
    return Plan(program, "data:1 model:4", LAYOUT, hardware=SLICES[0], name="Llama 3 8B")


@pytest.fixture(scope="module")
def found(plan):
    return latency_front(plan, [4, 32, 256], SLICES)


def point(seconds, batch, chips=1, peak=1):
    return DecodePoint(batch, "", chips, "", seconds, 0.0, peak, 2)


def test_every_batch_has_a_point_on_every_slice_the_quickest_first(found):
    assert {(each.batch, each.hardware) for each in found.points} == {(batch, name) for batch in (4, 32, 256) for name in SLICES}
    times = [each.seconds_per_token for each in found.points]
    assert times == sorted(times)
    assert found.impossible == ()


def test_a_point_is_what_the_plan_of_that_batch_and_mesh_says(found):
    chosen = next(each for each in found.points if (each.batch, each.hardware) == (32, SLICES[1]))
    program = build("decoder_decode", preset="llama3-8b", seq=2048, weights="int8", cache="int8", batch=32)
    report = Plan(program, chosen.mesh, LAYOUT, hardware=chosen.hardware).report()
    assert (chosen.step_seconds, chosen.peak) == (report.step_time.total, report.memory.peak)
    assert chosen.bandwidth_seconds == pytest.approx(report.traffic / 819e9)
    assert chosen.tokens_per_second == pytest.approx(32 / chosen.seconds_per_token)
    assert chosen.tokens_per_second_per_chip == pytest.approx(chosen.tokens_per_second / 8)


def test_larger_batches_take_longer_for_a_token_and_make_more_of_them(found):
    for name in SLICES:
        rows = sorted((each for each in found.points if each.hardware == name), key=lambda each: each.batch)
        latency, throughput = ([getattr(each, what) for each in rows] for what in ("seconds_per_token", "tokens_per_second"))
        assert latency == sorted(latency)
        assert throughput == sorted(throughput)


def test_the_front_is_of_those_that_fit_and_that_no_other_beats(found):
    """Brute force, by the definition."""
    fitting = [each for each in found.points if each.fits]
    beaten = [
        each
        for each in fitting
        if any(
            other.seconds_per_token <= each.seconds_per_token
            and other.tokens_per_second_per_chip >= each.tokens_per_second_per_chip
            and (other.seconds_per_token, other.tokens_per_second_per_chip) != (each.seconds_per_token, each.tokens_per_second_per_chip)
            for other in fitting
        )
    ]
    assert list(found.front) == [each for each in fitting if each not in beaten]
    assert len(found.front) >= 2


def test_a_point_that_does_not_fit_is_on_no_front_and_beats_nobody():
    marked = mark_front([point(1.0, 8, peak=3), point(2.0, 8), point(3.0, 8), point(3.0, 16)])
    assert [each.is_on_front for each in marked] == [False, True, False, True]


def test_of_equals_both_are_on_the_front():
    assert all(each.is_on_front for each in mark_front([point(1.0, 8), point(2.0, 64, chips=2), point(1.0, 8)]))


def test_no_step_is_quicker_than_the_memory_it_reads():
    assert DecodePoint(8, "", 1, "", 1.0, 2.0, 1, 1).seconds_per_token == 2.0


def test_devices_are_shared_among_the_axes_in_all_ways():
    found = [str(each) for each in meshes_of(Mesh("data:2 context:2 model:2"), 4)]
    assert len(found) == len(set(found)) == 6
    assert all(Mesh(each).size == 4 for each in found)


def test_a_batch_that_no_mesh_divides_is_said_to_be_impossible_and_why(plan):
    sharded = plan.updated(mesh=Mesh("data:4"), layout="batch:data")
    found = latency_front(sharded, [6])
    assert found.points == ()
    assert "puts `batch` (6) on mesh axis `data` (4)" in found.impossible[0].why
    assert "batch 6 on TPU v5e 2x2:" in str(found)


def test_the_text_has_a_row_for_each_and_says_which_times_are_of_the_bandwidth(found):
    text = str(found)
    rows = [line.split() for line in text.splitlines() if "TPU v5e" in line]
    assert [row[0] == "front" for row in rows] == [each.is_on_front for each in found.points]
    assert ("*" in text) == any(each.bandwidth_seconds > each.step_seconds for each in found.points)


def test_what_is_no_step_of_decoding_is_refused(plan):
    for program in (build("mnist"), build("decoder_prefill")):
        with pytest.raises(SearchError) as caught:
            latency_front(Plan(program, "data:4", hardware=SLICES[0]), [8])
        assert caught.value.message == (
            f"`{program.name}` is not a decode step: a decode step carries a cache and takes one token of each of its `batch` sequences."
        )
    bare = Plan(plan.program, "data:1 model:4", LAYOUT)
    with pytest.raises(SearchError, match="`hardware` is empty"):
        latency_front(bare, [8])
    with pytest.raises(SearchError, match="`batches` is empty"):
        latency_front(plan, [])
    with pytest.raises(SearchError, match="it should be a whole number from 1"):
        latency_front(plan, [0])
    with pytest.raises(SearchError, match="has no axes"):
        latency_front(Plan(plan.program, "", hardware="TPU v5e 1x1"), [8])


def test_a_program_of_ones_own_is_made_for_each_batch(plan):
    from dataclasses import replace

    mine = plan.updated(program=replace(plan.program, reference=None))
    with pytest.raises(SearchError, match="is not a model of the zoo, so it cannot be rebuilt for a batch of 8"):
        latency_front(mine, [8])
    found = mine.latency_front([8], make=lambda batch: build("decoder_decode", batch=batch))
    assert [each.batch for each in found.points] == [8]


def test_the_command_prints_the_front_as_text_and_as_json(capsys):
    words = ["latency", "--model", "decoder_decode", "--mesh", "data:2 model:2", "--layout", "batch:data; kv_heads:model"]
    words += ["--batches", "4,16", "--on", SLICES[0], "--on", SLICES[1]]
    assert main(words) == 0
    assert capsys.readouterr().out.count("TPU v5e") == 4
    assert main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {each["batch"] for each in record["points"]} == {4, 16}
    assert all(each["tokens_per_second"] == pytest.approx(each["batch"] / each["seconds_per_token"]) for each in record["points"])
    assert any(each["is_on_front"] for each in record["points"])
