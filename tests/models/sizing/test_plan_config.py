"""A model on a cluster: whether it fits, its layouts and their figures, which are the planner's, and how they are run."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.support.model_configs import PUBLISHED
from workbench.cli.main import main
from workbench.core.tensor import Role
from workbench.errors import DocumentError, SearchError, WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.models.sizing.candidate_layouts import Outliner, ParallelLayout, step_flops
from workbench.models.sizing.cluster_answer import GOALS, answer_record, duration_text, utilisation
from workbench.models.sizing.cluster_question import NamedModel, parse_amount, read_cluster, read_question
from workbench.models.sizing.launcher_options import launcher_options
from workbench.models.sizing.nearest_program import Workload, list_approximations, nearest_program, program_parameters
from workbench.models.sizing.plan_config import plan_config
from workbench.models.sizing.plan_layout import ESTIMATED, PLANNED, LayoutPlanner
from workbench.models.sizing.read_config import read_architecture
from workbench.propagation import structure_of
from workbench.tracing.named_optimizers import find_optimizer

SMALL = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 1024,
}


@pytest.fixture
def small(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "config.json").write_text(json.dumps(SMALL))
    return tmp_path / "small"


@pytest.fixture
def llama70(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED["Llama 3 70B"][1]))
    return tmp_path / "config.json"


def evaluate(config, hardware, choice, **options):
    """A layout of a configuration with the planner's figures."""
    question = read_question(config, hardware, **options)
    return LayoutPlanner(question, wb.Plan).evaluate(choice, question.hardware)


def test_the_optimizer_decides_the_state_and_what_is_said_of_it(small):
    choice = ParallelLayout(8, 1, 1, 1, "zero_1", micro_batches=8)
    held = {name: evaluate(small, "8 H100", choice, batch=64, optimizer=name).by_role[Role.OPTIMIZER_STATE] for name in ("adamw", "lion")}
    assert held["lion"] == pytest.approx(held["adamw"] / 2, rel=1e-3)
    answer = plan_config(small, "8 H100", batch=64, optimizer="lion", seconds=0)
    assert "12 bytes a parameter" in str(answer)
    assert "the momentum of Lion" in str(answer)
    assert answer_record(answer)["optimizer"] == "lion"
    assert any("the optimizer, lion, is not among these options" in each for each in launcher_notes(answer))


def test_float8_makes_a_step_shorter_and_its_time_has_no_range(llama70):
    choice = ParallelLayout(4, 1, 8, 2, "zero_1", micro_batches=32)
    plain, scaled = (evaluate(llama70, "64 H100, Megatron Core", choice, batch=128, precision=word) for word in ("", "float8"))
    assert scaled.seconds < 0.9 * plain.seconds
    assert (plain.step_range is not None, scaled.step_range) == (True, None)
    answer = plan_config(llama70, "64 H100", batch=128, precision="float8", seconds=0)
    assert "products in bfloat16, of weights in layers in float8" in " ".join(str(answer).split())


def test_decoding_may_have_more_devices_than_heads_of_keys_each_with_a_copy(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SMALL | {"num_key_value_heads": 2}))
    two, eight = (evaluate(tmp_path, "8 H100", ParallelLayout(1, 1, size, 1, micro_batch=4), batch=4, inference=True) for size in (2, 8))
    assert eight.by_role[Role.MODEL_STATE] == two.by_role[Role.MODEL_STATE]
    assert eight.by_role[Role.PARAMETER] < two.by_role[Role.PARAMETER] / 2
    question = read_question(tmp_path, "8 H100", batch=4, inference=True)
    sizes = {each.choice.model for each in Outliner(question.architecture, question.workload, question.hardware).outlines()}
    assert 8 in sizes


def test_training_may_have_more_devices_than_heads_of_keys_too_with_and_without_stages(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SMALL | {"num_key_value_heads": 2}))
    question = read_question(tmp_path, "8 H100", batch=16, seq=64)
    outlines = Outliner(question.architecture, question.workload, question.hardware).outlines()
    assert {outline.choice.model for outline in outlines} == {1, 2, 4, 8}
    two, four = (evaluate(tmp_path, "8 H100", ParallelLayout(1, 1, size, 2, micro_batches=4), batch=16, seq=64) for size in (2, 4))
    copied = 2 * 2 * (2 * 512 * 64) * 4 / 4  # keys and values of two layers a stage, held twice; the rest of a device halves
    assert four.by_role[Role.PARAMETER] == pytest.approx((two.by_role[Role.PARAMETER] + 2 * copied) / 2, rel=0.02)


def launcher_notes(answer):
    question, layout = answer.question, answer.layouts["fastest"]
    return launcher_options(layout.choice, question.workload, layout.hardware, "maxtext")[0].unsupported


@pytest.mark.parametrize(
    "choice", [ParallelLayout(8, 1, 1, 1, "zero_3", micro_batches=8), ParallelLayout(2, 1, 2, 2, "zero_1", micro_batches=32)]
)
def test_the_figures_of_a_layout_are_those_of_its_plan_s_report(small, choice):
    layout = evaluate(small, "8 H100", choice, batch=64)
    report = layout.plan.report()
    assert layout.tier == PLANNED
    assert (layout.seconds, layout.memory) == (report.seconds, report.peak)
    assert sum(layout.by_role.values()) == report.peak


def test_one_layout_is_planned_in_any_case(small):
    answer = wb.plan_config(small, "8 H100", batch=64, seconds=0.5)
    assert answer.fits
    assert answer.planned >= 1
    assert list(answer.layouts) == list(GOALS)
    assert isinstance(answer.plan("cheapest"), wb.Plan)


def test_each_layout_is_the_least_in_what_it_is_named_for(small):
    layouts = plan_config(small, "8 H100", batch=64, seconds=2).layouts
    planned = [layout for layout in layouts.values() if layout.tier == PLANNED]
    for goal, key in GOALS.items():
        if layouts[goal].tier == PLANNED:
            assert key(layouts[goal]) == min(map(key, planned))
    assert layouts["fewest devices"].devices == 1


def test_without_time_every_figure_is_estimated_and_says_so(llama70):
    answer = plan_config(llama70, "64 H100", seconds=0)
    assert {layout.tier for layout in answer.layouts.values()} == {ESTIMATED}
    assert all(layout.step_range is None for layout in answer.layouts.values())
    assert "Figures marked `estimated` come from a formula" in " ".join(str(answer).split())
    assert answer.planned == 0


def test_a_model_that_does_not_fit_is_answered_with_the_devices_that_do(llama70):
    answer = plan_config(llama70, "8 T4", seconds=0)
    assert not answer.fits
    assert list(answer.layouts) == ["fewest devices"]
    fewest = answer.layouts["fewest devices"]
    assert fewest.devices > 8
    assert fewest.devices & (fewest.devices - 1) == 0
    assert answer.least_memory > parse_hardware("8 T4").chip.memory
    assert str(answer).startswith(f"{llama70.parent.name} does not fit on 8 T4; it trains on {fewest.devices} devices")


def test_days_and_cost_follow_from_step_time_and_price(small):
    record = answer_record(plan_config(small, "8 H100, 2 $/h", tokens="3B", batch=64, seq=512, seconds=0))
    layout = record["layouts"]["fastest"]
    steps = 3e9 / (64 * 512)
    assert layout["days"] == pytest.approx(steps * layout["step_seconds"] / 86400)
    assert layout["dollars"] == pytest.approx(layout["days"] * 24 * 2 * layout["devices"])
    assert layout["tokens_per_second_per_device"] == pytest.approx(64 * 512 / layout["step_seconds"] / layout["devices"])
    json.dumps(record)


def test_ranges_are_of_what_is_known_of_the_platform(small):
    choice = ParallelLayout(8, 1, 1, 1, "zero_1", micro_batches=8)
    on_tpu = evaluate(small, "TPU v5e 2x4", choice, batch=64)
    assert on_tpu.step_range is not None
    assert on_tpu.step_range[0].low < on_tpu.seconds < on_tpu.step_range[0].high
    assert "compiled programs" in on_tpu.step_range[1]
    assert evaluate(small, "8 A100", choice, batch=64).step_range[1] == "8 published runs on A100 and H100, without a fit"
    assert evaluate(small, "8 MI300X", choice, batch=64).step_range is None


def test_a_decoding_step_is_planned_with_its_cache(small):
    layout = evaluate(small, "1 H100", ParallelLayout(1, 1, 1, 1, micro_batch=8), inference=True, batch=8, seq=1024)
    cache = 4 * 8 * 1024 * 2 * 4 * 64 * 2  # layers, sequences, tokens, keys and values, heads, their width, bytes
    assert layout.by_role["model state"] == pytest.approx(cache, rel=0.01)
    workload = Workload(1024, 8, is_inference=True)
    assert [options.launcher for options in launcher_options(layout.choice, workload, layout.hardware)] == ["vLLM"]
    assert plan_config(small, "8 H100", inference=True, seconds=0).layouts["fewest devices"].devices == 1


LOCAL = SMALL | {"model_type": "gemma2", "head_dim": 64, "sliding_window": 128}


def test_local_layers_make_a_step_shorter_and_its_cache_smaller(tmp_path):
    question = {"batch": 8, "seq": 4096}
    choice = ParallelLayout(1, 1, 1, 1, micro_batch=8)
    for inference in (True, False):
        local, full = (
            evaluate(NamedModel("m", architecture), "1 H100", choice, inference=inference, **question)
            for architecture in (read_architecture(LOCAL), replace(read_architecture(LOCAL), window=0))
        )
        assert local.seconds < full.seconds
        if inference:
            kept = {layout: layout.by_role["model state"] for layout in (local, full)}
            assert kept[local] / kept[full] == pytest.approx((2 * 128 + 2 * 4096) / (4 * 4096), rel=1e-4)
    workloads = {inference: Workload(4096, 8, is_inference=inference) for inference in (True, False)}
    decoded, trained = (list_local(workloads[inference]) for inference in (True, False))
    kept_rows = "66.0 MiB in place of 128 MiB for all tokens in every layer"
    assert decoded == f"2 of 4 layers attend to 128 tokens, and their caches keep no others: {kept_rows}"
    assert trained == "2 of 4 layers attend to 128 tokens; the attention kernel is assumed to skip all others"


def list_local(workload):
    architecture = read_architecture(LOCAL)
    return next(note for note in list_approximations(architecture, workload, nearest_program(architecture, workload)) if "attend" in note)


def test_a_window_of_all_tokens_is_none():
    architecture, workload = read_architecture(LOCAL), Workload(128, 8)
    plain = replace(architecture, window=0, pattern="")
    assert step_flops(architecture, workload) == step_flops(plain, workload)
    assert nearest_program(architecture, workload).module == nearest_program(plain, workload).module


def test_the_cache_of_gemma_3_has_all_tokens_in_one_layer_of_six():
    """4B: keys and values of 4 heads of 256 in 34 layers, the last four of which are local."""
    sizes = {"hidden_size": 2560, "num_hidden_layers": 34, "intermediate_size": 10240, "sliding_window": 1024}
    architecture = read_architecture({"model_type": "gemma3_text", **sizes})
    assert architecture.cached_values == 2 * 4 * 256
    assert architecture.cached_rows(32768) == 5 * 32768 + 29 * 1024


def test_an_encoder_has_no_decoding_step():
    question = Workload(128, 8, is_inference=True)
    with pytest.raises(DocumentError, match="no decode step for the family BERT"):
        nearest_program(read_architecture(PUBLISHED["BERT base"][1]), question)


@pytest.mark.parametrize("name", ["Llama 3 70B", "Mixtral 8x7B", "GPT-2", "DeepSeek V2 Lite", "T5 base", "ViT B/16", "Whisper small"])
def test_what_the_zoo_s_program_does_otherwise_is_said_with_its_parameters(name):
    architecture = read_architecture(PUBLISHED[name][1])
    workload = Workload(196 if architecture.kind == "vision" else 512, 8)
    program = nearest_program(architecture, workload)
    notes = list_approximations(architecture, workload, program)
    assert program_parameters(program) == pytest.approx(architecture.parameters, rel=0.03)
    assert bool(notes) == (program_parameters(program) != architecture.parameters)
    assert not notes or f"{program_parameters(program):,} parameters" in notes[0]


@pytest.mark.parametrize(
    "choice",
    [
        ParallelLayout(8, 1, 1, 1, "zero_3", micro_batches=4),
        ParallelLayout(8, 1, 1, 1, "zero_1", "full", micro_batches=4),
        ParallelLayout(2, 1, 2, 2, "zero_1", micro_batches=16),
        ParallelLayout(1, 1, 4, 2, "", "full", micro_batches=32),
        ParallelLayout(2, 1, 1, 1, "zero_3", micro_batches=4, context=4),
        ParallelLayout(2, 1, 2, 1, "zero_3", micro_batches=4, context=2),
        ParallelLayout(1, 1, 2, 1, "", "full", micro_batches=8, context=4),
    ],
    ids=str,
)
def test_an_outline_is_near_what_the_planner_says(choice):
    """A closed form that is far off would leave out layouts that fit. It has a factor of 1.35 either way."""
    sizes = {**SMALL, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8}
    architecture, hardware = read_architecture(sizes | {"vocab_size": 32000}), parse_hardware("8 H100")
    question = read_question("llama3-8b", hardware, batch=32 if choice.context == 1 else 8, seq=4096 if choice.context == 1 else 1 << 15)
    question = type(question)("model", architecture, hardware, question.workload, 0)
    outline = next(found for found in Outliner(architecture, question.workload, hardware).outlines() if found.choice == choice)
    planned = LayoutPlanner(question).evaluate(choice, hardware)
    assert outline.memory == pytest.approx(planned.memory, rel=0.35)
    assert 1 / 2 < outline.seconds / planned.seconds < 2


def test_long_sequences_of_decoders_may_be_sharded_over_devices(small):
    """Parts of at least 8k tokens; without them, a 405B model at 128k tokens had no layout on any number of devices."""

    def sizes(model, seq, **options):
        question = read_question(model, "64 H100", batch=64, seq=seq, **options)
        return {outline.choice.context for outline in Outliner(question.architecture, question.workload, question.hardware).outlines()}

    assert (sizes(small, "8k"), sizes(small, "64k")) == ({1}, {1, 2, 4, 8})
    assert sizes("t5-base", "16k") | sizes(small, "64k", inference=True) == {1}
    choice = ParallelLayout(2, 1, 2, 1, "zero_3", micro_batches=4, context=2)
    layout = evaluate(small, "8 H100", choice, batch=8, seq="16k")
    assert choice.mesh == "data:2 stage:1 context:2 model:2"
    (tokens,) = [tensor for tensor in layout.plan.program.arguments if tensor.path == "batch/tokens"]
    assert str(layout.plan.layout.sharding(tokens)) == "[data, context]"
    assert "--context-parallel-size 2 --cp-comm-type all_gather" in options(choice, "megatron").text
    assert "context_parallel_degree = 2" in options(choice, "torchtitan").text
    assert options(choice, "nanotron").unsupported[0] == "its options shard no sequence over 2 devices"
    assert "shard no sequence" in " ".join(options(choice, "deepspeed").unsupported)


def test_a_batch_is_of_sequences_or_of_tokens():
    def batch(text):
        return read_question("llama3-8b", "64 H100", batch=text, seq="8k").workload

    assert batch("4M") == Workload(8192, 512)
    assert batch("512") == batch(512) == batch("512 sequences") == Workload(8192, 512)
    assert batch("4194304 tokens") == Workload(8192, 512)


def test_a_batch_of_tokens_is_a_power_of_two_sequences_where_one_is_near():
    assert read_question("llama3-8b", "8 H100", batch="0.5M", seq="1k").workload.batch == 512  # not 488, 8 times 61
    assert read_question("llama3-8b", "96 H100", batch="16M", seq="2k").workload.batch == 7776  # 96 devices can share no power of two
    assert read_question("llama3-8b", "8 H100", seq=448).workload.batch == 2048


def test_a_batch_of_one_is_decoded_by_all_devices_of_several_nodes():
    answer = plan_config("deepseek-v3", "16 H200", inference=True, batch=1, seconds=0)
    assert answer.layouts["fastest"].choice == ParallelLayout(1, 1, 16, 1)


def test_the_headline_has_the_time_of_the_whole_cluster_and_of_the_fewest_devices(small):
    answer = plan_config(small, "64 H100, 2 $/h", tokens="1T", batch=64, seconds=0)
    days = {goal: answer_record(answer)["layouts"][goal]["days"] for goal in GOALS}
    fastest, fewest = (duration_text(86400 * days[goal]) for goal in ("fastest", "fewest devices"))
    assert answer.layouts["fastest"].devices > 1
    assert f" take {fastest} (estimated) for 1T tokens; 1 device is enough, in {fewest} (estimated)." in str(answer).splitlines()[0]
    decoding = str(plan_config(small, "8 H100", inference=True, batch=1, seconds=0))
    assert decoding.startswith("small fits on 8 H100; 1 device is enough (estimated).")
    assert "one token, after 1,024 cached tokens" in decoding


def test_decoding_has_no_range_from_runs_of_training(small):
    layout = evaluate(small, "1 H100", ParallelLayout(1, 1, 1, 1, micro_batch=8), inference=True, batch=8)
    assert layout.step_range is None
    answer = plan_config(small, "1 H100", inference=True, batch=8, seconds=1)
    assert "nothing was fitted for decoding steps on H100" in " ".join(str(answer).split())


def test_quantized_weights_are_decoded_in_the_type_of_the_file_or_in_another(small):
    (small / "config.json").write_text(json.dumps(SMALL | {"quantization_config": {"quant_method": "gptq", "bits": 4}}))
    note = "weights are quantized (gptq, 4 bits) in the file, planned in {}."
    answers = {word: plan_config(small, "1 H100", inference=True, precision=word, seconds=0) for word in ("", "bfloat16")}
    assert note.format("int4") in " ".join(str(answers[""]).split())
    assert note.format("bfloat16") in " ".join(str(answers["bfloat16"]).split())
    assert note[:20] not in " ".join(str(plan_config(small, "1 H100", seconds=0)).split())
    choice = ParallelLayout(1, 1, 1, 1, micro_batch=8)
    held = {word: evaluate(small, "1 H100", choice, inference=True, precision=word).by_role[Role.PARAMETER] for word in answers}
    assert held[""] == pytest.approx(held["bfloat16"] / 4, rel=0.1)  # and scales
    assert answer_record(answers[""])["weights"] == "int4"


@pytest.mark.parametrize(("word", "base"), [("", 2), ("int4", 0.5)])
def test_adapters_alone_have_gradients_and_state_with_and_without_stages(small, word, base):
    """The adapters' parameters are counted by the sizes, as those of the program; its embedding and head stay in bfloat16."""
    for choice in (ParallelLayout(8, 1, 1, 1, "zero_1", micro_batches=8), ParallelLayout(1, 1, 4, 2, micro_batches=16)):
        layout = evaluate(small, "8 H100", choice, batch=64, lora=8, precision=word)
        whole = evaluate(small, "8 H100", choice, batch=64)
        assert layout.by_role[Role.OPTIMIZER_STATE] < whole.by_role[Role.OPTIMIZER_STATE] / 10
        assert layout.by_role[Role.GRADIENT] < whole.by_role[Role.GRADIENT] / 10
    question = read_question(small, "8 H100", batch=64, lora=8, precision=word)
    architecture, program = question.architecture, nearest_program(question.architecture, question.workload)
    adapters = [tensor for tensor in program.arguments if tensor.role is Role.PARAMETER and "lora" in tensor.path]
    assert sum(math.prod(tensor.shape) for tensor in adapters) == 8 * architecture.adapter_parameters
    layers, trained = architecture.parameters - 2 * 1000 * 512 - 9 * 512, 8 * architecture.adapter_parameters
    outline = Outliner(architecture, question.workload, question.hardware).least_outline()
    assert base * layers < outline.held * outline.choice.devices < base * architecture.parameters + 13 * trained
    answer = plan_config(small, "8 H100", batch=64, lora=8, precision=word, seconds=0)
    assert f"adapters of rank 8, in bfloat16 with {find_optimizer('adamw').keeps}" in " ".join(str(answer).split())
    assert utilisation(question, answer.layouts["fastest"]) < 0.7


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("llama3-8b", {"precision": "int4"}, "There is no precision for training of all weights `int4`; there are `float8`, "),
        ("llama3-8b", {"precision": "float8 rowwise", "inference": True}, "There is no precision for decoding `float8 rowwise`"),
        ("llama3-8b", {"lora": 16, "inference": True}, "A decoding step trains no adapters"),
        ("llama3-8b", {"lora": 5000}, "`lora` is 5000; it must be from 1 to 4,096."),
        ("deepseek-v2", {"lora": 16}, "The zoo has no low-rank adapters for the family the zoo's mixture"),
    ],
)
def test_types_and_adapters_that_do_not_go_together_are_refused(model, options, message):
    with pytest.raises(WorkbenchError) as caught:
        read_question(model, "8 H100", **options)
    assert message in caught.value.message
    assert caught.value.ways_out


def test_more_time_is_offered_only_where_it_may_help(small):
    assert "More time" not in str(plan_config(small, "1 H100", inference=True, batch=1, seconds=5))
    assert "More time" in " ".join(str(plan_config(small, "8 H100", batch=64, seconds=0)).split())


def test_an_outline_of_an_encoder_and_decoder_has_its_scores_of_attention():
    question = read_question("t5-11b", "16 H100", batch=256, seq=512)
    choice = ParallelLayout(16, 1, 1, 1, "zero_3", "full", micro_batch=16)
    outline = next(
        found for found in Outliner(question.architecture, question.workload, question.hardware).outlines() if found.choice == choice
    )
    planned = LayoutPlanner(question).evaluate(choice, question.hardware)
    assert outline.memory == pytest.approx(planned.memory, rel=0.35)
    assert outline.seconds == pytest.approx(planned.seconds, rel=0.35)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": "many"}, "`batch` is 'many'; it should be a number, such as 2T, 4M or 512."),
        ({"tokens": "-2T"}, "`tokens` is '-2T'; it should be a number, such as 2T, 4M or 512."),
        ({"tokens": 0}, "`tokens` is 0; it must be from 1 to 1,000,000,000,000,000,000."),
        ({"seq": "9999k"}, "`seq` is 10238976; it must be from 1 to 1,048,576."),
        ({"seconds": float("nan")}, "`seconds` is nan; it should be a number of seconds."),
    ],
)
def test_numbers_that_cannot_be_are_refused(options, message):
    with pytest.raises(SearchError) as caught:
        plan_config("llama3-8b", "8 H100", **options)
    assert caught.value.message == message


@given(st.text(max_size=12) | st.integers() | st.floats() | st.booleans() | st.none())
def test_an_amount_is_a_number_or_an_error(value):
    try:
        assert 1 <= parse_amount("tokens", value, 10**18) <= 10**18
    except SearchError as error:
        assert error.ways_out  # noqa: PT017 - every error of this kind


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("64 H100", "8 nodes of 8 H100"),
        ("4 H100", "4 H100"),
        ("256 TPU v5p", "TPU v5p 4x8x8"),
        ("A100-40GB PCIe", "1 A100-40GB PCIe"),
        ("8 RTX 4090", "8 RTX 4090"),
        ("2 x p5.48xlarge", "2 nodes of 8 H100 EFA"),
        ("16 A100, 2 $/h", "2 nodes of 8 A100-80GB, 2 $/h"),
        ("8xH100, 2 $/h", "8 H100, 2 $/h"),
        ("8 x H100", "8 H100"),
        ("64 H100 80GB", "8 nodes of 8 H100"),
        ("p5.48xlarge", "8 H100 EFA"),
        ("8 p5.48xlarge", "8 nodes of 8 H100 EFA"),
        ("2 a3-highgpu-8g", "2 nodes of 8 H100"),
        ("TPU v5e-256", "TPU v5e 16x16"),
        ("v5litepod-16", "TPU v5e 4x4"),
        ("v5p-512", "TPU v5p 4x8x8"),
    ],
)
def test_a_count_of_devices_is_a_cluster(text, name):
    assert read_cluster(text).name == name


@pytest.mark.parametrize(
    "text", ["64 H1000", "many H100", "", "100 H100", "4 x ct5p-hightpu-4t", "4 ct5p-hightpu-4t", "2 x 8 H100", "99999999 H100"]
)
def test_a_cluster_that_is_not_is_refused(text):
    with pytest.raises(WorkbenchError) as caught:
        read_cluster(text)
    assert caught.value.ways_out


def test_a_batch_that_no_layout_can_share_ends_in_an_answer():
    answer = plan_config("llama3-8b", "96 H100", batch=7, seconds=0)
    assert answer.layouts == {} or all(7 % layout.choice.replicas == 0 for layout in answer.layouts.values())


@pytest.mark.parametrize("name", ["DeepSeek V2 Lite", "T5 base"])
def test_the_model_flops_of_a_step_are_those_of_the_program(name):
    """But for products with one-hot tables, which are directly in a stack. A decoder attends to all that its encoder read."""
    architecture = replace(read_architecture(PUBLISHED[name][1]), layers=2, dense_layers=0)
    architecture = replace(architecture, encoder_layers=2) if architecture.encoder_layers else architecture
    workload = Workload(512, 4)
    program = nearest_program(architecture, workload)
    structure = structure_of(program)
    works = zip(program.operations, structure.ops, strict=True)
    flops = sum(op.work.flops * structure.regions[op.region].runs_per_step for each, op in works if "coder/dot_general" not in each.path)
    assert step_flops(architecture, workload) == pytest.approx(flops, rel=0.02)


PIPELINED = ParallelLayout(2, 1, 4, 8, "zero_1", micro_batch=1, micro_batches=256)
SHARDED = ParallelLayout(64, 1, 1, 1, "zero_3", "full", micro_batch=2, micro_batches=4)
EXPERTS = ParallelLayout(2, 8, 2, 2, "zero_1", micro_batch=1, micro_batches=32)


def options(choice, launcher):
    (found,) = launcher_options(choice, Workload(8192, 512), parse_hardware("8 nodes of 8 H100"), launcher)
    return found


def test_megatron_has_a_flag_for_every_decision():
    text = options(PIPELINED, "megatron").text
    assert text == (
        "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 8 --sequence-parallel --micro-batch-size 1 --global-batch-size 512 "
        "--seq-length 8192 --bf16 --use-distributed-optimizer"
    )
    assert "--expert-model-parallel-size 8" in options(EXPERTS, "megatron").text
    assert "--data-parallel-sharding-strategy optim_grads_params" in options(SHARDED, "megatron").text
    assert "--recompute-granularity full" in options(SHARDED, "megatron").text


def test_maxtext_s_axes_multiply_to_the_devices():
    for choice in (PIPELINED, SHARDED, EXPERTS, replace(PIPELINED, context=2)):
        sizes = [int(word.split("=")[1]) for word in options(choice, "maxtext").text.split() if "_parallelism=" in word]
        product = 1
        for size in sizes:
            product *= size
        assert product == choice.devices
    assert "ici_fsdp_parallelism=8 dcn_fsdp_parallelism=8" in options(SHARDED, "maxtext").text


def test_what_a_launcher_cannot_do_is_said():
    assert options(SHARDED, "nanotron").unsupported == (
        "it has no ZeRO 3: each replica holds all weights and gradients, which may not fit",
    )
    assert "zero_stage: 1" in options(PIPELINED, "nanotron").text
    assert options(PIPELINED, "deepspeed").unsupported[0].startswith("set 8 stages in the model")
    assert json.loads(options(SHARDED, "deepspeed").text)["zero_optimization"] == {"stage": 3}
    assert "data_parallel_shard_degree = 64" in options(SHARDED, "torchtitan").text
    experts_alone = options(ParallelLayout(1, 8, 1, 1, micro_batch=1, micro_batches=64), "torchtitan").text
    assert "data_parallel_shard_degree = 8" in experts_alone  # which `expert_parallel_degree` has to divide
    assert 'fsdp_reshard_after_forward = "never"' in experts_alone
    with pytest.raises(SearchError, match="no launcher `alpa`"):
        options(SHARDED, "alpa")


def test_the_command_saves_layouts_that_open(small, tmp_path, capsys):
    folder = tmp_path / "plans"
    assert main(["plan", str(small), "--on", "8 H100", "--batch", "64", "--seconds", "0", "--json", "--save", str(folder)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["fits"] is True
    assert sorted(file.name for file in folder.iterdir()) == ["cheapest.plan.json", "fastest.plan.json", "fewest_devices.plan.json"]
    plan = wb.load(folder / "fastest.plan.json")
    assert plan.mesh.size == record["layouts"]["fastest"]["devices"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no/such.json", "--on", "8 H100"], "`no/such.json` cannot be read: No such file or directory."),
        (["llama9", "--on", "8 H100"], "There is no file or model of the zoo `llama9`"),
        (["llama3-8b", "--on", "8 Z100"], "There is no hardware `Z100`"),
        (["llama3-8b", "--on", "8 H100", "--open", "fastest"], "`--open` needs the file of the layout."),
    ],
)
def test_the_command_s_errors_are_the_user_s(words, message, capsys):
    assert main(["plan", *words]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("hardware", "compute"), [("8 H100", "bfloat16"), ("8 V100-32GB", "float16"), ("8 P40", "float32")])
def test_products_are_of_the_type_that_the_chip_computes_fast(hardware, compute):
    question = read_question("llama3-8b", hardware)
    assert question.workload.compute == compute
    assert f"products in {compute}" in str(plan_config("llama3-8b", hardware, seconds=0))


def test_an_answer_without_a_layout_says_what_to_try():
    answer = plan_config("deepseek-v3", "8 H100", inference=True, batch=1, seconds=0)
    assert answer.layouts == {}
    assert "no layout fits, on up to 65,536 devices." in str(answer)
    assert "Data and expert parallelism share a batch of 1." in str(answer)
    with pytest.raises(SearchError, match="There is no layout `fastest`"):
        answer.plan()


def test_a_cache_that_each_layer_writes_in_place_is_held_once(small):
    layout = evaluate(small, "1 H100", ParallelLayout(1, 1, 1, 1, micro_batch=64), inference=True, batch=64, seq=4096)
    assert layout.by_role["activation"] < layout.by_role["model state"] / 2  # a layer's share of it is read at a time
