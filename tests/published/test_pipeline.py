"""GPipe's own tables (Huang et al. 2019), from the workbench's pipeline model; sources in `benchmarks/published_pipeline.py`."""

from dataclasses import replace

import pytest

from benchmarks.published_pipeline import (
    MEMORY,
    PARTS,
    RECOMPUTED,
    TABLES,
    TRANSFORMER,
    activation_memory,
    hardware_of,
    micro_batch,
    recomputed_share,
    seconds_of,
    throughput,
)

pytestmark = pytest.mark.compile


@pytest.mark.parametrize(("table", "limit"), [("GP-2", 0.08), ("GP-3", 0.06)])
def test_the_throughput_of_a_table_is_predicted(table, limit):
    assert {partitions: error for partitions, error in throughput(table).errors.items() if abs(error) > limit} == {}


def test_the_parts_of_a_layer_are_all_of_it():
    """No kernel of a layer is left out of the units that are balanced."""
    report = micro_batch(hardware_of(TABLES["GP-2"][0]), first=True, last=False)
    whole = sum(seconds_of(report, ("layers/0",)))
    assert sum(sum(seconds_of(report, [f"layers/0/{scope}" for scope in scopes])) for scopes in PARTS) == pytest.approx(whole)


def test_recomputation_takes_as_large_a_share_as_was_measured():
    """34 % of computation (GP-4), one forward pass of three or so."""
    assert recomputed_share() == pytest.approx(RECOMPUTED, abs=0.04)


def test_the_activations_of_a_core_do_not_grow_with_the_pipeline():
    """GP-1: L layers over K cores, L / K about 13, all in float32, 32 micro-batches of one sequence."""
    found = {partitions: activation_memory(partitions, layers) for partitions, layers, _, _ in MEMORY}
    assert len(set(found.values())) == 1
    for partitions, _, _, memory in MEMORY:
        assert found[partitions] / 1e9 == pytest.approx(memory / partitions, rel=0.09)


def test_activations_are_the_inputs_of_all_micro_batches_and_the_layers_of_one():
    """O(N + (L / K) (N / M)): GPipe, section 2.3."""
    one, two = activation_memory(8, 104), activation_memory(8, 208)
    entering = 32 * TRANSFORMER.seq * TRANSFORMER.d_model * 4
    assert two - entering == 2 * (one - entering)
    assert activation_memory(8, 104, 16) - entering == 2 * (one - entering)


def test_the_transformer_has_the_published_parameters():
    for _, layers, parameters, _ in MEMORY:
        assert replace(TRANSFORMER, layers=layers).parameters == pytest.approx(parameters, rel=0.004)
