"""Step times and memory that others measured, against the plan of the same run.

Sources stand in `step_times.json` and `benchmarks/published.py`.

What is fitted, and on which half of the rows: `benchmarks/fit_efficiency.py`.
"""

from functools import cache

import pytest

from benchmarks.fit_efficiency import CLASSES, halves
from benchmarks.published import Prediction, predict, predictions, published_errors
from benchmarks.published_rows import TABLES, b200_row
from tests.support.choosing import drawn
from workbench.hardware.catalogue import default_catalogue
from workbench.models.mixture.mixture_config import MixtureConfig

pytestmark = pytest.mark.compile

# Mean absolute error allowed: (all rows, the half that nothing was fitted on). What each table reaches is in the benchmark's output.
# Of MaxText one number is fitted, the share of the compiler's estimate that its chips sustain.
LIMITS = {"megatron": (0.03, 0.03), "sc21": (0.07, 0.07), "b200": (0.05, 0.05), "maxtext": (0.06, 0.06)}
# Runs of the same source that are not among its rows in the file: tensor parallel by 2 and 8, sequences over all devices, two stages of a
# mixture of experts. (name, milliseconds, GiB)
OTHERS = [
    ("llama3_70b_tp2_pp1_dp4_l12_mbc4_cef", 725.5, 60.68),
    ("llama3_405b_l4_tp8_pp1_dp1_mbc4_cef", 258.8, 38.57),
    ("llama3_405b_l4_tp1_cp8_pp1_dp1_seq32768_mbc4_cef", 2003.6, 139.22),
    ("deepseekv2_tp1_ep4_pp2_dp4_l4_mbc4_cef", 282.1, 44.70),
    ("deepseekv3_l4_tp1_ep4_pp2_dp4_mbc4_cef", 452.2, 114.00),
]
QUICK = ("b200", "maxtext")


def pytest_generate_tests(metafunc):
    """A quarter of a minute for one of the quick tables, of which each run has one; all of them are `nightly`."""
    (number,) = drawn(QUICK, metafunc.config.getoption("--hypothesis-seed"), lambda _: (), len(QUICK))
    for name, tables in (("table", TABLES), ("b200", QUICK[:1]), ("maxtext", QUICK[1:])):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, [pytest.param(each, marks=() if each == QUICK[number] else pytest.mark.nightly) for each in tables])


@cache
def predicted(table: str) -> list[Prediction]:
    return predictions([table])


def test_the_step_times_of_a_table_are_predicted(table):
    assert published_errors(predicted(table))[table] <= LIMITS[table][0]


def test_the_rows_that_nothing_was_fitted_on_are_predicted_as_well(table):
    fitted = [row for hardware in CLASSES for row in halves(hardware)[0]]
    held_out = [each for each in predicted(table) if each.row not in fitted]
    assert 2 * len(held_out) >= len(predicted(table))
    assert published_errors(held_out)[table] <= LIMITS[table][1]


def test_memory_on_b200_is_predicted_within_its_goal(b200):
    """SimuMax's own model is within 1.4 %; nothing of memory is fitted."""
    errors = {each.row.name: each.memory_error for each in predicted(b200)}
    assert {name: error for name, error in errors.items() if abs(error) > 0.014} == {}
    assert published_errors(predicted(b200))["b200_memory"] <= 0.007


def test_every_row_on_b200_is_built_dense_or_mixture(b200):
    rows = [each.row for each in predicted(b200)]
    assert len(rows) == 22
    assert sum(isinstance(row.config, MixtureConfig) for row in rows) == 6


@pytest.mark.share(3)
@pytest.mark.parametrize("published", OTHERS, ids=lambda each: each[0])
def test_runs_on_b200_that_are_not_in_the_table_are_predicted_as_well(published):
    found = predict(b200_row(*published))
    assert abs(found.memory_error) <= 0.014
    assert abs(found.time_error) <= 0.08


def test_memory_of_maxtext_fits_its_chip(maxtext):
    """They ran: what does not fit could not have."""
    assert all(each.memory < default_catalogue()["TPU v5e"].chip.memory for each in predicted(maxtext))


@pytest.mark.parametrize("hardware", CLASSES)
def test_the_catalogue_says_that_its_efficiency_is_fitted_and_on_what(hardware):
    chip = default_catalogue()[hardware].chip
    assert "benchmarks/fit_efficiency.py" in chip.sources["efficiency"]
    assert all(0 < chip.efficiency[name] <= 1 for name in CLASSES[hardware])
