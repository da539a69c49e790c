"""Every figure can be asked why, and the parts of the answer make up the figure."""

import json
import re

import pytest

from tests.support.programs import mlp_report
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.report import Report
from workbench.units import format_bytes
from workbench.widgets.board.key_figures import figures
from workbench.widgets.tabs.question_answers import why
from workbench.widgets.tabs.table_blocks import MOST_ROWS, Paint

PAINT = Paint({"data": 0, "model": 1})


@pytest.fixture(scope="module")
def report() -> Report:
    plan = Plan(build("gpt"), "data:4 model:2", "batch:data; d_ff:model; heads:model; params/norm/scale=[model]")
    return plan.updated(hardware=parse_hardware("TPU v5e 2x4")).report()


def shares(answer: dict) -> list[float]:
    return [row["cells"][0]["share"] for block in answer["blocks"] for row in block["rows"]]


def test_every_figure_has_an_answer_with_the_largest_part_first(report):
    for figure in figures(report):
        answer = why(f"figure {figure.key}", report, PAINT)
        json.dumps(answer, allow_nan=False)
        assert answer["title"].startswith("Why "), figure.key
        assert shares(answer) == sorted(shares(answer), reverse=True), figure.key


def test_the_parts_make_up_the_whole(report):
    for key in ("memory", "sent", "flops", "predicted"):
        answer = why(f"figure {key}", report, PAINT)
        rest = re.search(r"others make ([\d.]+)%", answer["blocks"][0]["note"])
        assert sum(shares(answer)) == pytest.approx(1 - (float(rest[1]) / 100 if rest else 0), abs=2e-3), key
        assert len(shares(answer)) <= MOST_ROWS


def test_the_amounts_are_those_of_the_report(report):
    assert sum(each.per_device * each.count for each in report.products) == report.flops.per_device
    assert sum(each.flops * each.count for each in report.products) == report.flops.unique
    assert sum(each.bytes for each in report.alive) == report.memory.peak
    parts = sum(each.total_seconds for each in report.kernel_costs)
    assert parts + report.step_time.exposed == pytest.approx(report.step_time.total, rel=1e-3)


def test_a_part_names_its_scope_and_its_line(report):
    answer = why("figure flops", report, PAINT)
    row = answer["blocks"][0]["rows"][0]
    assert row["subject"]
    assert re.fullmatch(r"\w+\.py:\d+", row["cells"][-1]["text"])


@pytest.mark.parametrize(
    ("model", "memory", "step"),
    [
        ("decoder_decode", {"KV cache", "Batch of sequences"}, {"Decode", "Latency per token", "Throughput", "Latency front"}),
        ("decoder_prefill", {"KV cache", "Batch of sequences"}, {"Prefill", "Time to first token"}),
        ("gpt", {"Recomputation"}, {"Bubble"}),
    ],
)
def test_a_step_of_inference_is_explained_in_the_words_of_inference(model, memory, step):
    found = Plan(build(model), "data:4 model:2", hardware="TPU v5e 2x4").report()
    assert memory <= set(why("figure memory", found, PAINT)["words"])
    answer = why("figure predicted", found, PAINT)
    assert step <= set(answer["words"])
    assert any("the latency per token is" in line for line in answer["lead"]) == (model == "decoder_decode")


def test_work_done_for_padding_is_told_as_padding_and_no_axis_is_blamed():
    padded = Plan(build("einsum", sizes=(30, 64, 64)), "data:8", "@dot_general=[data, -]").report()
    answer = why("figure duplication", padded, PAINT)
    assert answer["lead"][1:] == [
        "1.07× is padding, most of it of `dot_general`: 30 over `data` (8): 8 parts of 4, 32 slots for 30. 24 or 32 divide by 8."
    ]
    (product,) = answer["blocks"][0]["rows"]
    assert product["cells"][3:6] == ["1×", {"axes": []}, "1.07×"]


def test_padding_and_work_done_alike_are_told_apart():
    both = Plan(build("two_layer", batch=16, io=64, hidden=30), "data:8", "@first/dot_general=[-, data]").report()
    answer = why("figure duplication", both, PAINT)
    assert "shard one of its dimensions over the axis" in answer["lead"][1]
    assert answer["lead"][2].startswith("1.02× is padding, most of it of `grad/second/dot_general`: 30 over `data` (8)")
    alike = {row["subject"]: [each["name"] for each in row["cells"][4]["axes"]] for row in answer["blocks"][0]["rows"]}
    assert alike == {"second/dot_general": ["data"], "grad/second/dot_general": [], "first/dot_general": []}


def test_duplicated_work_names_the_axes_along_which_it_is_done_alike(report):
    plain = Plan(report.plan.program, report.plan.mesh, "batch:data").report()
    answer = why("figure duplication", plain, PAINT)
    idle = {axis["name"] for row in answer["blocks"][0]["rows"] for axis in row["cells"][4]["axes"]}
    assert idle == {"model"}
    assert "shard one of its dimensions over the axis" in answer["lead"][1]


@pytest.mark.parametrize(
    ("of", "because"),
    [
        ("tensor params/layers/mlp/w1", ["no rule for `layers`: whole", "no rule for `d_model`: whole", "rule `d_ff:model`"]),
        ("tensor params/norm/scale", ["override `params/norm/scale=[model]`"]),
    ],
)
def test_a_tensor_names_the_rule_or_override_of_each_dimension(report, of, because):
    answer = why(of, report, PAINT)
    assert [row["cells"][-1]["text"] for row in answer["blocks"][0]["rows"]] == because


def test_a_tensor_says_how_many_devices_hold_the_same_part(report):
    assert "4 devices hold the same shard: no dimension is sharded over data." in why("tensor params/layers/mlp/w1", report, PAINT)["lead"]


def test_a_value_names_the_rule_or_constraint_its_axes_come_from(report):
    value = next(each for each in report.values if ("data",) in each.sharding.dims and "batch" in each.dims)
    place = value.dims.index("batch")
    told = why(f"value {value.path}", report, PAINT)["blocks"][0]["rows"][place]["cells"][-1]["text"]
    assert told.startswith("`data` from `batch:data` on batch/")
    layout = f"{report.plan.layout}; @/{value.path}=[{', '.join(['-'] * len(value.dims))}]"
    held = Plan(report.plan.program, report.plan.mesh, layout).report()
    told = why(f"value {value.path}", held, PAINT)["blocks"][0]["rows"][place]["cells"][-1]["text"]
    assert told.startswith(f"constraint `@/{value.path}=")


def test_the_payload_of_an_axis_is_made_of_its_collectives(report):
    for (axes, kind), payload in report.by_axis_and_kind.items():
        answer = why(f"sent {'+'.join(axes)} {kind}", report, PAINT)
        assert format_bytes(payload) in answer["title"]
        assert sum(shares(answer)) == pytest.approx(1, abs=1e-3)


def test_a_collective_tells_what_it_is_for_and_its_arithmetic(report):
    each = next(one for one in report.collectives if one.kind == "all-reduce")
    lead = " ".join(why(f"collective {each.kind} {'+'.join(each.axes)} {each.path}", report, PAINT)["lead"])
    assert "a summed dimension is sharded there" in lead
    assert "2 V (n − 1) / n" in lead
    assert each.source in lead


@pytest.mark.parametrize("of", ["", "figure nothing", "figure measured", "tensor gone", "value gone", "collective x", "🙂"])
def test_what_is_not_there_has_no_answer(of):
    assert why(of, mlp_report(), PAINT) is None


@pytest.mark.compile
def test_of_a_pipeline_work_done_twice_is_that_of_the_stage_that_does_most_of_it():
    """Of micro-batches of 4 examples over 8 devices, each device of a stage computes all."""
    plan = Plan(build("gpt", layers=4, batch=16), "stage:2 data:8", "batch:data", pipeline="stages:2 micro_batches:4 axis:stage")
    staged = plan.report()
    (shown,) = (each for each in figures(staged) if each.key == "duplication")
    assert shown.value == staged.duplication == pytest.approx(8, rel=0.01)
    assert why("figure duplication", staged, PAINT)["title"] == "Why 8.00×?"
