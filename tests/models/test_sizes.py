"""Parameter counts of the presets against the published ones; nothing is allocated."""

import math
from dataclasses import replace

import jax
import pytest

from workbench.models import conformer, gpt, t5, unet
from workbench.models import conformer as conformer_config
from workbench.models import t5 as t5_config
from workbench.models import unet as unet_config
from workbench.models.decoder import decoder_config, decoder_weights
from workbench.models.gpt_config import PADDED_VOCAB, PRESETS, GPTConfig
from workbench.models.mixture import mixture_config, mixture_weights

pytestmark = pytest.mark.compile

GPT2_VOCAB = 50257


def specs(config: GPTConfig, *, scan: bool = True):
    return jax.eval_shape(lambda key: gpt.init(key, config, scan=scan), jax.random.key(0))


def count(tree) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def in_layers(config: GPTConfig) -> int:
    """Parameters in the matrices of the layers: what the published figures count, to which a table of words would add a digit."""
    return count([leaf for leaf in jax.tree.leaves(specs(config)["layers"]) if leaf.ndim > 2])


@pytest.mark.share(3)
@pytest.mark.parametrize("scan", [True, False])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_formula_counts_the_parameters_that_are_made(preset, scan):
    config = PRESETS[preset]
    assert count(specs(config, scan=scan)) == config.parameters


def test_gpt2_small_has_the_parameters_of_the_published_checkpoint():
    assert replace(PRESETS["gpt2-small"], vocab=GPT2_VOCAB).parameters == 124_439_808


def test_padding_the_vocabulary_costs_47_rows():
    config = PRESETS["gpt2-small"]
    assert config.parameters - 124_439_808 == 47 * config.d_model


def test_the_padded_vocabulary_splits_where_the_original_cannot():
    assert all(PADDED_VOCAB % parts == 0 for parts in (2, 4, 8, 16, 32, 64, 128))
    assert all(GPT2_VOCAB % parts for parts in range(2, 29))


def test_gpt3_has_the_174600_million_of_its_paper():
    """Brown et al. 2020, table D.1, in millions."""
    assert round(PRESETS["gpt3-175b"].parameters / 1e8) == 1746


@pytest.mark.parametrize(
    ("preset", "millions"),
    [("small", 125), ("medium", 356), ("large", 760), ("1.3b", 1320), ("2.7b", 2650), ("6.7b", 6660), ("13b", 12850)],
)
def test_the_smaller_models_of_gpt3_have_what_they_are_called(preset, millions):
    """Brown et al. 2020, table D.1, in millions; its tables of words are not padded, and projections have biases: within 0.4%."""
    assert PRESETS[f"gpt3-{preset}"].parameters / 1e6 == pytest.approx(millions, rel=4e-3)


def test_the_layers_of_gspmds_64b_hold_64_binary_billions():
    """Xu et al. 2021: the dense wide model of 32 layers is called 64B."""
    assert in_layers(PRESETS["gspmd-64b"]) == 64 * 2**30


ASPLOS = {"gpt-1t": 1030, "meena-500b": 507, "mlperf-200b": 199}


@pytest.mark.parametrize("preset", ASPLOS)
def test_the_layers_of_the_dense_models_hold_the_published_parameters(preset):
    """Wang et al. 2023, table 1: 1.03T, 507B and 199B."""
    billions = in_layers(PRESETS[preset]) / 1e9
    assert float(f"{billions:.3g}") == ASPLOS[preset]


@pytest.mark.parametrize("billions", [32, 64, 128, 256, 512])
def test_the_narrow_models_hold_what_they_are_called(billions):
    """Wang et al. 2023, table 2, to two digits: 128.6 and 257.7 are called 128 and 256."""
    found = in_layers(PRESETS[f"narrow-{billions}b"]) / 1e9
    assert f"{found:.2g}" == f"{billions:.2g}"


@pytest.mark.parametrize("scan", [True, False])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_weight_has_a_name_for_each_dimension_and_the_size_of_that_name(preset, scan):
    config, program_dims = PRESETS[preset], gpt.dims(PRESETS[preset], scan=scan)
    for path, leaf in jax.tree_util.tree_flatten_with_path(specs(config, scan=scan))[0]:
        words = ["*" if isinstance(key, jax.tree_util.SequenceKey) else key.key for key in path]
        names = program_dims["/".join(words)].split()
        assert leaf.shape == tuple(getattr(config, name) for name in names)


@pytest.mark.share(3)
@pytest.mark.parametrize("scan", [True, False])
@pytest.mark.parametrize("preset", decoder_config.PRESETS)
def test_the_formula_counts_the_decoders_parameters_too(preset, scan):
    config = decoder_config.PRESETS[preset]
    made = jax.eval_shape(lambda key: decoder_weights.init(key, config, scan=scan), jax.random.key(0))
    assert count(made) == config.parameters


@pytest.mark.parametrize(
    ("preset", "billions"),
    [
        *(("llama2-7b", 6.7), ("llama2-13b", 13.0), ("llama2-70b", 69.0), ("llama3-8b", 8.0), ("llama3-70b", 70.6)),
        *(("llama3-405b", 405.9), ("megatron-22b", 22.1), ("megatron-1t", 1008.0)),
    ],
)
def test_the_decoders_presets_have_the_parameters_of_their_papers(preset, billions):
    """Touvron et al. 2023 (7B, 13B, 70B); Grattafiori et al. 2024 (8B, 70B, 405B); Korthikanti et al. 2022, table 3 (22B, 1T)."""
    assert round(decoder_config.PRESETS[preset].parameters / 1e9, 1) == billions


@pytest.mark.parametrize("preset", decoder_config.PRESETS)
def test_a_batch_of_a_decoder_can_be_split_into_micro_batches(preset):
    """The first pipeline that is proposed has some for each of its stages."""
    assert decoder_config.PRESETS[preset].batch % 4 == 0


@pytest.mark.parametrize("scan", [True, False])
@pytest.mark.parametrize("preset", mixture_config.PRESETS)
def test_the_formula_counts_the_mixtures_parameters_too(preset, scan):
    config = mixture_config.PRESETS[preset]
    made = jax.eval_shape(lambda key: mixture_weights.init(key, config, scan=scan), jax.random.key(0))
    assert count(made) == config.parameters


PAPERS = [("deepseek-v2", 236, 21), ("deepseek-v3", 671, 37), ("glam-64b-64e", 1162, 96), ("mixtral-8x7b", 47, 12)]


@pytest.mark.parametrize(("preset", "billions", "active"), PAPERS)
def test_the_mixtures_have_the_parameters_of_their_papers(preset, billions, active):
    """DeepSeek-AI 2024 (abstracts): 236B of which a token passes 21B, 671B and 37B; Du et al. 2021, table 4: 1.2T and 96.6B;
    Jiang et al. 2024: 47B and 13B."""
    config = mixture_config.PRESETS[preset]
    assert round(config.parameters / 1e9) == billions
    assert int(config.active / 1e9) == active


def test_the_mixture_of_glam_is_the_one_that_gspmds_successor_measured():
    """Wang et al. 2023, table 1: GLaM_1T has 1.16T parameters, a batch of 1,024 and 32 layers, a dense and a sparse one each."""
    config = mixture_config.PRESETS["glam-64b-64e"]
    assert (f"{config.parameters / 1e12:.3g}", config.sparse, config.d_model, config.d_ff, config.batch) == ("1.16", 32, 8192, 32768, 1024)


@pytest.mark.parametrize("scan", [True, False])
@pytest.mark.parametrize("preset", conformer_config.PRESETS)
def test_the_formula_counts_the_conformers_parameters_too(preset, scan):
    config = conformer_config.PRESETS[preset]
    made = jax.eval_shape(lambda key: conformer.init(key, config, scan=scan), jax.random.key(0))
    assert count(made) == config.parameters


def test_the_conformer_of_bigssl_has_the_published_parameters():
    """Wang et al. 2023, table 1: BigSSL_10B has 10.4B."""
    assert round(conformer_config.PRESETS["bigssl-10b"].parameters / 1e9, 1) == 10.4


@pytest.mark.parametrize("preset", unet_config.PRESETS)
def test_the_formula_counts_the_unets_parameters_too(preset):
    config = unet_config.PRESETS[preset]
    made = jax.eval_shape(lambda key: unet.init(key, config), jax.random.key(0))
    assert count(made) == config.parameters


def test_the_unet_of_its_paper_has_the_published_parameters():
    """Cicek et al. 2016, section 2: 19,069,955 in total: the kernels, and a bias for every channel that a convolution makes."""
    assert unet_config.PRESETS["cicek-2016"].parameters == 19_069_955


@pytest.mark.parametrize("scan", [True, False])
@pytest.mark.parametrize("preset", t5_config.PRESETS)
def test_the_formula_counts_the_parameters_of_t5_too(preset, scan):
    config = t5_config.PRESETS[preset]
    made = jax.eval_shape(lambda key: t5.init(key, config, scan=scan), jax.random.key(0))
    assert count(made) == config.parameters


@pytest.mark.parametrize(("preset", "published"), [("t5-base", 220e6), ("t5-11b", 11e9)])
def test_t5_has_the_parameters_of_its_paper(preset, published):
    """Raffel et al. 2020, sections 3.1.2 and 3.7: about 220 million and 11 billion."""
    assert float(f"{t5_config.PRESETS[preset].parameters:.2g}") == published


def test_the_layers_of_the_large_t5_hold_the_published_parameters():
    """Wang et al. 2023, table 1: T5_300B has 290B."""
    config = t5_config.PRESETS["t5-300b"]
    made = jax.eval_shape(lambda key: t5.init(key, config, scan=True), jax.random.key(0))
    assert round(count((made["encoder"], made["decoder"])) / 1e9) == 290
