"""A `config.json` becomes an architecture with the parameters that were published, or an error in the user's names."""

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.model_configs import PUBLISHED
from workbench.errors import DocumentError
from workbench.models import gpt_config
from workbench.models.decoder import decoder_config
from workbench.models.mixture import mixture_config
from workbench.models.sizing.architecture import Architecture
from workbench.models.sizing.cluster_question import read_model
from workbench.models.sizing.read_config import families, read_architecture, read_config

LLAMA = PUBLISHED["Llama 2 7B"][1]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_parameters_are_the_published_ones(name):
    published, config = PUBLISHED[name]
    assert read_architecture(config).parameters == published


def test_every_family_has_a_published_model():
    known = {model_type for _, config in PUBLISHED.values() for model_type in [config["model_type"]]}
    assert [family.name for family in families().values() if family.model_types and not known & set(family.model_types)] == []


@pytest.mark.parametrize(
    ("name", "billions"), [("Mixtral 8x7B", 12.9), ("Qwen 3 235B-A22B", 22), ("DeepSeek V3", 37), ("GPT-OSS 120B", 5.1)]
)
def test_a_token_passes_as_many_parameters_as_were_published(name, billions):
    """Published counts have the token table or round to whole billions."""
    assert read_architecture(PUBLISHED[name][1]).active / 1e9 == pytest.approx(billions, rel=0.03)


@pytest.mark.parametrize(
    "preset",
    ["llama3-8b", "llama3-70b", "megatron-175b", "maxtext-64b", "gpipe-13", "gpt2-small", "gpt3-175b", "deepseek-v2", "deepseek-v3"],
)
def test_a_preset_of_the_zoo_has_the_zoo_s_parameters(preset):
    known = decoder_config.PRESETS | mixture_config.PRESETS | gpt_config.PRESETS
    assert read_model(preset)[1].parameters == known[preset].parameters


def test_parts_add_up_and_a_mixture_holds_most_in_its_experts():
    found = read_architecture(PUBLISHED["DeepSeek V3"][1])
    assert sum(found.by_part.values()) == found.parameters
    assert max(found.by_part, key=found.by_part.__getitem__) == "experts"
    assert found.sparse_layers == 58
    assert found.cached_values == 576


def test_a_language_model_inside_another_configuration_is_read():
    found = read_architecture(
        {
            "model_type": "gemma3",
            "text_config": {
                "model_type": "gemma3_text",
                "hidden_size": 2560,
                "num_hidden_layers": 34,
                "intermediate_size": 10240,
                "sliding_window": 1024,
            },
        }
    )
    assert (found.vocab, found.heads, found.kv_heads, found.d_head) == (262208, 8, 4, 256)  # transformers leaves them out of the file
    assert found.local_layers == 29


def test_the_language_model_of_a_multimodal_file_is_that_of_its_family():
    """Older files have the sizes at the top, newer ones in `text_config`, whose `model_type` has a suffix."""
    sizes = PUBLISHED["Qwen 2 7B"][1]
    old = read_architecture({**sizes, "model_type": "qwen2_5_vl", "vision_config": {"depth": 32}})
    new = read_architecture({"model_type": "qwen2_5_vl", "text_config": {**sizes, "model_type": "qwen2_5_vl_text"}})
    assert old == new == read_architecture(sizes)
    interleaved = {**PUBLISHED["Llama 4 Scout"][1], "interleave_moe_layer_step": 2}
    with pytest.raises(DocumentError, match="`interleave_moe_layer_step` is 2; it should be 1"):
        read_architecture({"model_type": "llama4", "text_config": interleaved})


def test_a_file_and_its_folder_are_the_same(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert read_config(tmp_path) == read_config(tmp_path / "config.json") == read_architecture(LLAMA)


def test_an_unknown_family_is_named_with_the_known_ones():
    with pytest.raises(DocumentError) as caught:
        read_architecture({**LLAMA, "model_type": "mamba"})
    assert caught.value.message.startswith(
        "`config.json`: the `model_type` `mamba` is not in a known family: Llama, Mistral, Qwen 2, Qwen 3, "
    )
    assert caught.value.ways_out == ("set `model_type` in the file to the most similar family",)
    with pytest.raises(DocumentError) as caught:
        read_architecture({**LLAMA, "model_type": "qwen3_next"})
    assert caught.value.ways_out[0] == "did you mean `qwen3_moe`?"


def errors():
    """What is wrong with a file, and the error's message."""
    return [
        ({"num_attention_heads": None}, "`config.json` has no `num_attention_heads`, which the model family Llama requires."),
        ({"hidden_size": math.nan}, "`config.json`: `hidden_size` is NaN; it should be a whole number from 1 to 16,777,216."),
        ({"hidden_size": -4096}, "`config.json`: `hidden_size` is -4096; it should be a whole number from 1 to 16,777,216."),
        ({"vocab_size": 10**30}, f"`config.json`: `vocab_size` is {10**30}; it should be a whole number from 1 to 16,777,216."),
        ({"num_hidden_layers": [32]}, "`config.json`: `num_hidden_layers` is [32]; it should be a whole number from 1 to 4,096."),
        ({"num_hidden_layers": True}, "`config.json`: `num_hidden_layers` is true; it should be a whole number from 1 to 4,096."),
        (
            {"intermediate_size": {"a": 1}},
            '`config.json`: `intermediate_size` is {"a": 1}; it should be a whole number from 1 to 16,777,216.',
        ),
        ({"num_attention_heads": 33}, "`config.json`: `d_model / heads` is 4096 / 33, which is not a whole number."),
        ({"num_key_value_heads": 5}, "`config.json` has 32 query heads, which are not a multiple of its 5 key heads."),
        ({"vocab_size": "32000"}, '`config.json`: `vocab_size` is "32000"; it should be a whole number from 1 to 16,777,216.'),
        ({"tie_word_embeddings": "yes"}, '`config.json`: `tie_word_embeddings` is "yes"; it should be true or false.'),
    ]


@pytest.mark.parametrize(("change", "message"), errors(), ids=lambda each: next(iter(each)) if isinstance(each, dict) else "")
def test_what_is_wrong_is_said_in_the_file_s_names(change, message):
    with pytest.raises(DocumentError) as caught:
        read_architecture({**LLAMA, **change})
    assert caught.value.message == message
    assert caught.value.ways_out


@pytest.mark.parametrize(
    ("config", "quantized"),
    [
        (None, ""),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "gptq", "bits": 4}, "gptq, 4 bits"),
        ({"bits": True}, "a method it does not name"),
        ("int8", ""),
    ],
)
def test_how_the_weights_of_a_file_are_quantized_is_read(config, quantized):
    assert read_architecture({**LLAMA, "quantization_config": config}).quantized == quantized


def test_the_name_of_a_repository_is_answered_with_how_to_fetch_its_file():
    with pytest.raises(DocumentError) as caught:
        read_config("meta-llama/Llama-3.1-8B")
    assert caught.value.ways_out[0] == (
        "nothing is downloaded: fetch it with `hf download meta-llama/Llama-3.1-8B config.json --local-dir .`"
    )
    for path in ("no/such.json", "a/b/c", "no such/model"):
        with pytest.raises(DocumentError) as caught:
            read_config(path)
        assert "hf download" not in " ".join(caught.value.ways_out)


def test_patterns_of_sparse_layers_that_cannot_be_counted_are_refused():
    with pytest.raises(DocumentError, match="`decoder_sparse_step` is 2; it should be 1"):
        read_architecture({**PUBLISHED["Qwen 3 30B-A3B"][1], "decoder_sparse_step": 2})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON"),
        ("[1, 2]", "does not contain a JSON object"),
        ('{"a": NaN}', "NaN is not a valid number"),
        ("{}", "has no `model_type`"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(DocumentError, match=message):
        read_config(tmp_path)


def test_a_byte_order_mark_is_ignored_and_another_encoding_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8-sig")
    assert read_config(tmp_path) == read_architecture(LLAMA)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), encoding="utf-16")
    with pytest.raises(DocumentError, match=r"is not valid JSON: it is not text in UTF-8\."):
        read_config(tmp_path)


def test_a_folder_without_a_configuration_is_refused(tmp_path):
    with pytest.raises(DocumentError, match="cannot be read: No such file or directory"):
        read_config(tmp_path)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_size_that_is_null_is_refused_or_has_the_default_of_its_family(name):
    config = PUBLISHED[name][1]
    for key in config:
        with suppress(DocumentError):
            assert read_architecture({**config, key: None}).parameters > 0


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(PUBLISHED)), st.data())
def test_no_change_of_a_file_ends_in_a_traceback(name, data):
    """Every file is read, or is refused in the user's names."""
    config = PUBLISHED[name][1]
    changed = data.draw(st.dictionaries(st.sampled_from([*config, "text_config", "sliding_window", "id2label"]), VALUES, max_size=3))
    try:
        found = read_architecture({**config, **changed})
    except DocumentError:
        return
    assert isinstance(found, Architecture)
    assert 0 < found.active <= found.parameters


MISTRAL = LLAMA | {"model_type": "mistral", "num_hidden_layers": 8, "sliding_window": 4096}
QWEN = PUBLISHED["Qwen 2 7B"][1] | {"num_hidden_layers": 8, "use_sliding_window": True, "sliding_window": 4096}


@pytest.mark.parametrize(
    ("config", "pattern", "local"),
    [
        (MISTRAL, "", 8),
        (MISTRAL | {"sliding_window": None}, "", 0),
        (MISTRAL | {"layer_types": [*["sliding_attention"] * 3, "full_attention"] * 2}, "LLLG", 6),
        (MISTRAL | {"layer_types": ["full_attention"] * 8}, "", 0),
        (MISTRAL | {"sliding_window_pattern": 4}, "LLLG", 6),
        (MISTRAL | {"sliding_window_pattern": "LLG"}, "LLG", 6),
        (QWEN | {"max_window_layers": 3}, "GGGLLLLL", 5),
        (QWEN, "", 0),  # 28 layers without a window, of 8
        (QWEN | {"max_window_layers": 3, "use_sliding_window": False}, "", 0),
        (PUBLISHED["GPT-OSS 120B"][1], "LG", 18),
    ],
)
def test_local_layers_are_those_that_the_file_names(config, pattern, local):
    found = read_architecture(config)
    assert (found.pattern, found.local_layers, bool(found.window)) == (pattern, local, local > 0)


def test_chunks_are_windows_of_the_layers_with_positions():
    sizes = MISTRAL | {"model_type": "llama4_text", "num_local_experts": 16, "sliding_window": None}
    found = read_architecture(sizes | {"attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0] * 2})
    assert (found.window, found.pattern, found.chunked, found.local_layers) == (8192, "LLLG", True, 6)


@pytest.mark.parametrize(
    ("key", "value"), [("layer_types", ["linear_attention"] * 8), ("layer_types", ["full_attention"]), ("sliding_window_pattern", 0)]
)
def test_unknown_kinds_of_layers_are_refused_by_the_name_of_their_key(key, value):
    with pytest.raises(DocumentError, match=f"`{key}` is .*; it should be the kinds of local and global layers"):
        read_architecture(MISTRAL | {key: value})
