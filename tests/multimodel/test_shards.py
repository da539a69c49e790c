"""The partitioner: greedy, near-maximum, never beyond the budget less the buffer."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import FleetError
from workbench.multimodel.greedy_partition import Layer, Room, greedy_shards, shard_bytes, verify_shards

layers_of_all_sizes = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 5)), min_size=1, max_size=12).map(
    lambda sizes: [Layer(f"layer_{i}", *each) for i, each in enumerate(sizes)]
)


def ends(layers, starts):
    return zip(starts, [*starts[1:], len(layers)], strict=True)


@given(layers_of_all_sizes, st.integers(70, 200), st.floats(0.0, 0.05))
def test_every_shard_fits_and_none_could_take_one_layer_more(layers, capacity, buffer):
    room = Room(capacity, buffer)
    if any(shard_bytes(layers, i, i + 1) > room.usable for i in range(len(layers))):
        return
    starts = greedy_shards(layers, [room, Room(capacity * 2)])
    for begin, end in ends(layers, starts):
        assert shard_bytes(layers, begin, end) <= room.usable
        assert end == len(layers) or shard_bytes(layers, begin, end + 1) > room.usable
    assert verify_shards(layers, starts, [room]) == starts


@given(layers_of_all_sizes, st.integers(70, 200), st.floats(0.2, 3.0))
def test_a_shard_is_as_large_as_measured_bytes_allow(layers, capacity, factor):
    def measure(begin, end):
        return int(shard_bytes(layers, begin, begin + 1) + factor * sum(each.resident for each in layers[begin + 1 : end]))

    room = Room(capacity, 0.0)
    for begin, end in ends(layers, greedy_shards(layers, [room], measure)):
        assert measure(begin, end) <= room.usable
        assert end == len(layers) or measure(begin, end + 1) > room.usable


def test_what_was_measured_counts_more_than_the_estimate():
    layers = [Layer(name, resident=30, residuals=0) for name in "abcd"]
    assert greedy_shards(layers, [Room(100, 0.0)]) == (0, 3)
    assert greedy_shards(layers, [Room(100, 0.0)], measure=lambda begin, end: 45 * (end - begin)) == (0, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: greedy_shards([Layer("embed", resident=90 << 20, residuals=10 << 20)], [Room(100 << 20, 0.05)]),
            "Layer `embed` alone takes 100 MiB (90.0 MiB of parameters, gradients and optimizer state, 10.0 MiB of activations); "
            "a device has 95.0 MiB: 100 MiB less 5% for the buffer.",
        ),
        (
            lambda: verify_shards([Layer(name, 60 << 20, 0) for name in "ab"], (0,), [Room(100 << 20, 0.0)]),
            "The shard of layers 0 to 1 (`a` to `b`) takes 120 MiB; a device has 100 MiB for it.",
        ),
        (lambda: verify_shards([Layer("a", 1, 0)], (0, 3), [Room(100)]), "[0, 3] are not valid cuts of 1 layers at."),
    ],
)
def test_what_does_not_fit_is_said(make, message):
    with pytest.raises(FleetError, match=re.escape(message)):
        make()
