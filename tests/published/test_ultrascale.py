"""The Ultra-Scale Playbook's runs: what is fitted stands in `benchmarks/fit_eager.py`; here, what the rows say of the rules."""

import pytest

from benchmarks.published_ultrascale import MODELS, Run, config_of, predict, predictions, runs, scores, split_blocks, tables_of

pytestmark = pytest.mark.compile


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
    chosen = [run for run in runs() if run.is_steady and run.model in ("1B", "3B") and run.micro_batch <= 2][::3]
    found = scores(predictions(chosen))
    assert found["mape"] <= 0.15
    assert found["spearman"] >= 0.85


def test_at_eight_devices_a_layer_costs_its_calls_whatever_the_model():
    """4.4 ms a layer and micro-batch were measured for each model."""
    layers = [predict(next(run for run in runs() if run[:7] == (model, 1, 1, 8, 1, 0, 1))).parts["layer"] for model in ("1B", "3B", "8B")]
    assert layers == pytest.approx([4.4e-3] * 3, rel=0.15)


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
