"""The models made for pipelines: parameters as published, cut into stages and run, with the loss and gradients of the unpipelined step."""

import jax
import numpy as np
import pytest

from tests.engine.test_mpmd import TOLERANCE, pipelined
from workbench.engine.mpmd_check import largest_error
from workbench.errors import DocumentError
from workbench.models import amoebanet, amoebanet_config, build, decoder_config, deep_unet, deep_unet_config
from workbench.pipeline.balance import at, balance, bucket_rule
from workbench.plan import Plan
from workbench.stage_costs import block_costs
from workbench.tracing.cutting import blocks_of, network_of
from workbench.tracing.cut import cut_network, starts_at


@pytest.fixture(autouse=True, scope="module")
def quick_code_generation():
    """LLVM's effort halved: what runs here is small."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


AMOEBANETS = {"18-208": 81.5, "18-416": 319.0, "18-544": 542.7, "36-544": 1056, "72-512": 1845}
GPIPES = {"18-208": 82, "18-416": 318, "18-544": 542, "36-544": 1050, "72-512": 1800}


@pytest.mark.parametrize("size", AMOEBANETS)
def test_amoebanets_have_torchgpipes_parameters_and_gpipes_within_three_percent(size):
    """torchgpipe's table of memory says 81.5M, 319.0M, 542.7M, 1.06B, 1.84B; GPipe's table 1 rounds down."""
    millions = amoebanet.parameters(amoebanet_config.PRESETS[f"gpipe-{size}"]) / 1e6
    assert float(f"{millions:.4g}") == pytest.approx(AMOEBANETS[size], abs=0.06)
    assert millions == pytest.approx(GPIPES[size], rel=0.03)


@pytest.mark.parametrize(
    ("size", "billions"), [("6-72", 0.3622), ("11-128", 2.21), ("24-128", 4.99), ("24-160", 7.80), ("48-160", 15.82)]
)
def test_u_nets_have_torchgpipes_parameters(size, billions):
    assert deep_unet.parameters(deep_unet_config.PRESETS[f"torchgpipe-{size}"]) / 1e9 == pytest.approx(billions, abs=0.005)


@pytest.mark.parametrize(("layers", "millions"), [(3, 282.2), (13, 785.8), (103, 5300), (415, 21000), (1663, 83900)])
def test_the_deep_transformers_have_gpipes_parameters(layers, millions):
    assert decoder_config.PRESETS[f"gpipe-{layers}"].parameters / 1e6 == pytest.approx(millions, rel=0.004)


@pytest.mark.parametrize(("model", "config"), [(amoebanet, amoebanet_config), (deep_unet, deep_unet_config)])
def test_the_formula_counts_the_parameters_that_are_made(model, config):
    sizes = config.PRESETS["tiny"]
    made = jax.tree.leaves(jax.eval_shape(lambda: model.init(jax.random.key(0), sizes)))
    assert sum(leaf.size for leaf in made) == model.parameters(sizes)


def test_the_deepest_transformer_is_planned_with_its_pipeline_without_being_allocated():
    """83.9B parameters in 128 stages, as GPipe's last column: they fit 16 GB as they did there."""
    program = build("decoder", preset="gpipe-1663")
    blocks = blocks_of(program, 32)
    assert len(blocks) == 1663 + 4
    assert {block.path for block in blocks} >= {"embedding", "layers/0", "layers/1662", "head", "loss"}


def test_an_amoebanet_carries_two_values_across_every_cut_of_its_cells():
    """What the cell before made and what the one before that made."""
    network = network_of(build("amoebanet"), 2)
    assert network.paths == ("stem/0", "stem/1", "stem/2", *(f"cells/{i}" for i in range(5)), "classify", "loss")
    cut = cut_network(network, starts_at(network, ["cells/1", "cells/3"]))
    assert [sum(value.maker == stage for value in cut.values) for stage in (0, 1)] == [2, 2]


def test_what_a_u_net_makes_first_goes_straight_to_the_stage_that_reads_it_last():
    network = network_of(build("deep_unet"), 2)
    cut = cut_network(network, starts_at(network, ["down1/0", "bottleneck/0", "up0/0"]))
    assert {(value.maker, value.readers) for value in cut.values} >= {(0, (1, 3)), (1, (2,))}


@pytest.fixture(scope="module")
def amoebanet_plan() -> Plan:
    program = build("amoebanet", preset="gpipe-18-256")
    return Plan(program, "stage:8", hardware="TPU v3 4x4", pipeline="stages:8 micro_batches:32 schedule:gpipe")


def test_a_pipelined_amoebanet_shows_that_it_is_out_of_balance(amoebanet_plan):
    """GPipe's table 2 implies an effective balance of 0.5 to 0.6. Its code counted operations by the bucket rule, which leaves the
    first cells, large in memory rather than in arithmetic, together; cut by time as exactly as cells allow, 8 stages reach 0.8."""
    report = amoebanet_plan.report().pipeline
    assert 0.7 < report.balance < 0.9
    assert report.simulated.bubble > report.least_bubble + 0.1
    times = [block.work for block in block_costs(amoebanet_plan)]
    counted = bucket_rule([block.flops for block in blocks_of(amoebanet_plan.program, 32)], 8)
    by_rule = at(times, np.cumsum(counted)[:-1].tolist())
    assert 0.45 < by_rule.factor < 0.65 < balance(times, 8).factor


CASES = [
    ("amoebanet", "stages:3 micro_batches:2 schedule:1f1b"),
    ("deep_unet", "stages:4 micro_batches:4 schedule:1f1b remat:except_last"),
    ("deep_unet", "stages:2 micro_batches:2 schedule:interleaved chunks:2 remat:never"),
]


@pytest.mark.parametrize(("model", "pipeline"), CASES)
def test_loss_and_updated_state_are_those_of_the_unpipelined_step(model, pipeline):
    assert largest_error(pipelined(build(model), pipeline)) < 10 * TOLERANCE


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("amoebanet", {"cells": 20}, "`cells` is 20; they stand in 3 groups of as many."),
        ("amoebanet", {"size": 48}, "`size` is 48; the network halves it 5 times, and 32 does not divide it."),
        ("deep_unet", {"size": 18}, "`size` is 18; 2 levels halve it 2 times, and 4 does not divide it."),
    ],
)
def test_sizes_that_cannot_be_are_refused_with_those_near_them(model, arguments, message):
    with pytest.raises(DocumentError) as caught:
        build(model, **arguments)
    assert caught.value.message == message
    assert all(way.startswith("take ") for way in caught.value.ways_out)
