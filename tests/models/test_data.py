"""Batches depend on seed and step alone, so that every process feeds the same ones."""

import subprocess
import sys

import numpy as np
import pytest

from workbench.models import mnist
from workbench.models.data import english_text, synthetic_data

SOURCES = [
    lambda seed: english_text.batches(4, 32, seed),
    lambda seed: mnist.batches(8, seed),
    lambda seed: synthetic_data.speech(4, 32, 8, 16, seed),
    lambda seed: synthetic_data.scans(2, 8, 1, 4, seed),
]


def same(left, right) -> bool:
    return all(np.array_equal(left[name], right[name]) for name in left | right)


@pytest.mark.parametrize("source", SOURCES)
def test_a_step_has_the_same_batch_whenever_it_is_asked_for(source):
    data, again = source(3), source(3)
    data(0)
    assert same(data(5), again(5))


@pytest.mark.parametrize("source", SOURCES)
def test_other_steps_and_seeds_have_other_batches(source):
    assert not same(source(0)(0), source(0)(1))
    assert not same(source(0)(0), source(1)(0))


def test_another_process_draws_the_same_text():
    script = "from workbench.models.data.english_text import batches; print(batches(2, 40, 7)(3)['tokens'].tolist())"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str(english_text.batches(2, 40, 7)(3)["tokens"].tolist())


def test_targets_are_the_next_bytes_of_english():
    batch = english_text.batches(4, 200)(0)
    np.testing.assert_array_equal(batch["tokens"][:, 1:], batch["targets"][:, :-1])
    assert batch["tokens"].shape == (4, 200)
    assert batch["tokens"].dtype == batch["targets"].dtype == np.int32
    assert b" the " in english_text.corpus().tobytes()


def test_a_window_longer_than_the_text_goes_round_it():
    size = len(english_text.corpus())
    tokens = english_text.batches(1, size + 100)(0)["tokens"][0]
    np.testing.assert_array_equal(tokens[:100], tokens[size:])


def test_the_ten_digits_differ():
    digits = [mnist.digit(label).tobytes() for label in range(10)]
    assert len(set(digits)) == 10


def test_frames_of_one_sound_are_alike_and_every_frame_has_a_target():
    batch = synthetic_data.speech(8, 64, 16, 4)(0)
    assert batch["frames"].shape == (8, 64, 16)
    means = np.stack([batch["frames"][batch["targets"] == sound].mean(0) for sound in range(4)])
    apart = np.linalg.norm(batch["frames"][:, :, None] - means, axis=-1).argmin(-1)
    assert (apart == batch["targets"]).mean() > 0.95


def test_a_scan_shows_its_tissues_by_their_brightness():
    batch = synthetic_data.scans(2, 16, 1, 4)(0)
    assert batch["volumes"].shape == (2, 16, 16, 16, 1)
    assert 0 < (batch["targets"] > 0).mean() < 0.9
    assert np.abs(batch["volumes"][..., 0] - batch["targets"]).mean() < 0.3
