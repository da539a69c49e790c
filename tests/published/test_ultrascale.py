"""The Ultra-Scale Playbook's runs: what is fitted stands in `benchmarks/fit_eager.py`; here, what the rows say of the rules."""

from collections import defaultdict
from dataclasses import replace
from functools import cache

import pytest
from scipy.stats import spearmanr

from benchmarks.published_ultrascale import MODELS, Prediction, Run, config_of, predict, predictions, runs, scores, split_blocks, tables_of

pytestmark = pytest.mark.compile

RANKS = {
    "1B": {1: (0.93, 0.93), 4: (0.88, 0.95), 16: (0.85, 0.98), 64: (0.50, None)},
    "3B": {1: (0.95, 0.95), 4: (0.58, 0.96), 16: (0.71, 0.96), 64: (0.46, None)},
    "8B": {1: (0.53, 0.53), 4: (0.60, 0.95), 16: (0.70, 0.96), 64: (0.42, None)},
    "80B": {4: (0.20, None), 16: (0.76, 0.70), 64: (0.17, None)},
}
"""Rank correlation (Spearman) of predicted and measured utilisation by model and nodes: of all rows that ran, and of the steady ones, where
there are more than three."""


def test_the_halves_share_no_group_and_hold_every_model():
    fitted, tested = ({run.group for run in runs() if run.is_fitted == side} for side in (True, False))
    assert not fitted & tested
    assert {model for model, _ in fitted} == {model for model, _ in tested} == set(MODELS)


def test_a_models_parameters_are_those_of_its_name():
    counts = {model: config_of(model, 1, layers).parameters / 1e9 for model, (layers, *_) in MODELS.items()}
    assert counts == pytest.approx({"1B": 1.6, "3B": 4.0, "8B": 8.8, "80B": 80.0}, rel=0.03)


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
def test_every_block_is_in_one_stage(stages):
    blocks = split_blocks(16, 67.1, 268.4, stages)
    assert len(blocks) == stages
    assert sum(count for count, _ in blocks) == 16
    assert sum(head for _, head in blocks) == 1


def test_a_sample_of_the_steady_rows_is_predicted():
    chosen = [run for run in runs() if run.is_steady and run.model in ("1B", "3B") and run.micro_batch <= 2][::6]
    found = scores(predictions(chosen))
    assert found["mape"] <= 0.15
    assert found["spearman"] >= 0.85


def test_at_eight_devices_a_layer_costs_its_calls_whatever_the_model():
    """4.4 ms a layer and micro-batch were measured for each model."""
    layers = [predict(next(run for run in runs() if run[:7] == (model, 1, 1, 8, 1, 0, 1))).parts["layer"] for model in ("1B", "3B", "8B")]
    assert layers == pytest.approx([4.4e-3] * 3, rel=0.15)


def test_layouts_are_scored_by_utilisation_and_not_by_the_time_of_a_step():
    """A step of half the batch takes less time at a lower utilisation: the ranks by time would be others, and it would be the best row."""
    rows = [Run("1B", 1, 8, 1, 1, 0, 2, micro_batches, tokens, 1.0) for micro_batches, tokens in ((16, 100), (16, 90), (16, 80), (8, 60))]
    exact = [Prediction(run, run.seconds, 1.0, {}) for run in rows]
    assert [each.tokens for each in exact] == pytest.approx([100, 90, 80, 60])
    assert (scores(exact)["spearman"], scores(exact)["regret"]) == (1.0, 0.0)
    slower = [replace(each, seconds=each.seconds * times) for each, times in zip(exact, (1.6, 1, 1, 1), strict=True)]
    assert [each.tokens for each in slower] == pytest.approx([62.5, 90, 80, 60])
    assert scores(slower)["spearman"] == pytest.approx(0.4)
    assert scores(slower)["regret"] == pytest.approx(0.1)


@pytest.mark.nightly
def test_the_rows_for_testing_are_predicted():
    test = tables_of(predictions([run for run in runs() if run.is_steady]))["ultrascale_test"]
    assert test["mape"] <= 0.2
    assert test["regret"] <= 0.05
    assert test["spearman"] >= 0.75


def test_gathers_over_more_nodes_take_longer():
    """A row of one device in each node, and of all of four: the step grows as measured."""
    one, four = (Run("1B", nodes, 1, tensor, 1, 0, 1, 256, 1.0, 1.0) for nodes, tensor in ((1, 8), (4, 32)))
    assert 2.5 < predict(four).parts["layer"] / predict(one).parts["layer"] < 4.5  # 18.98 s and 74.1 s: 3.9


@cache
def _all_predictions() -> dict[tuple[str, int], list[Prediction]]:
    found = defaultdict(list)
    for each in predictions(runs()):
        found[each.run.group].append(each)
    return found


def _rank_correlation(found: list[Prediction]) -> float:
    """Of utilisations."""
    return float(spearmanr([each.tokens for each in found], [each.run.tokens for each in found]).statistic)


@pytest.mark.nightly
@pytest.mark.parametrize(("model", "nodes"), [(model, nodes) for model, of_nodes in RANKS.items() for nodes in of_nodes])
def test_layouts_are_ranked_by_utilisation(model, nodes):
    """The goal is 0.9 for each. Steady rows reach it but for 8B on one node, eleven of whose 13 rows lie within a quarter, and 80B, of
    which there are five. Of all rows the median is 0.60: on 64 nodes, and where a pipeline crosses nodes, rows that differ in ZeRO alone
    are measured 3 times apart (`Run.is_steady`)."""
    everything, steady = RANKS[model][nodes]
    found = _all_predictions()[model, nodes]
    assert _rank_correlation(found) == pytest.approx(everything, abs=0.02)
    if steady is not None:
        assert _rank_correlation([each for each in found if each.run.is_steady]) == pytest.approx(steady, abs=0.02)
