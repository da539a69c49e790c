"""Finds the repeated layers of an unrolled program, once per trace.

A model of 96 unrolled layers is 96 times the same operations: forward, backward and in the optimizer. Operations are
compared by their kind, rule and types, which propagation depends on: a sequence that repeats with a period is a run of
blocks. Blocks of several runs belong to one layer if they read each other. A layer with other connections than the
others' is not a repeat.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FEWEST_LAYERS = 12  # with fewer layers, shortening does not pay off
KEPT_LAYERS = 3  # layers at either end that stay: operations before and after may read from them

Operands = Sequence[Sequence[int]]  # of each operation: the makers of its operands; negative for an argument
_PERIODS = 64  # number of periods tried, the most frequent first


class Run(NamedTuple):
    """`period` operations repeated `blocks` times from `start`; block `j` belongs to layer `layer_step * j + shift`."""

    start: int
    period: int
    blocks: int
    layer_step: int = 1
    shift: int = 0

    @property
    def stop(self) -> int:
        return self.start + self.period * self.blocks

    @property
    def layers(self) -> tuple[int, int]:
        ends = (self.shift, self.layer_step * (self.blocks - 1) + self.shift)
        return min(ends), max(ends)


class LayerPosition(NamedTuple):
    """The position of an operation: its run's number, its layer, and its offset in the block."""

    run: int
    layer: int
    offset: int


class RepeatedLayers(NamedTuple):
    """Runs with blocks of the same layers; layers `first` to `last` (exclusive) are identical in all of them."""

    runs: tuple[Run, ...]
    first: int
    last: int
    positions: tuple[LayerPosition | None, ...]  # of every operation; `None` outside of the runs

    def operation_at(self, position: LayerPosition, layer: int) -> int:
        run = self.runs[position.run]
        return run.start + (layer - run.shift) * run.layer_step * run.period + position.offset

    def is_between(self, position: LayerPosition | None) -> bool:
        """Return whether an operation belongs to a middle layer, which has identical layers before and after it."""
        return position is not None and self.first <= position.layer < self.last


def find_layers(kinds: Sequence[int], operands: Operands) -> RepeatedLayers | None:
    """The repeated layers of a program, its return last; `None` if they are few or connected differently."""
    if not (runs := _find_runs(np.asarray(kinds))):
        return None
    aligned = _align_runs(runs, operands)
    first, last = max(run.layers[0] for run in aligned) + KEPT_LAYERS, min(run.layers[1] for run in aligned) - KEPT_LAYERS + 1
    positions: list[LayerPosition | None] = [None] * len(kinds)
    for number, run in enumerate(aligned):
        for index in range(run.start, run.stop):
            block, offset = divmod(index - run.start, run.period)
            positions[index] = LayerPosition(number, run.layer_step * block + run.shift, offset)
    layers = RepeatedLayers(tuple(aligned), first, last, tuple(positions))
    return layers if last - first >= FEWEST_LAYERS - 2 * KEPT_LAYERS and _are_alike(layers, operands) else None


def _find_runs(kinds: npt.NDArray[np.int64]) -> list[Run]:
    candidates = []
    for period in _periods(kinds):
        same = np.concatenate(([False], kinds[:-period] == kinds[period:], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if (blocks := (stop - start) // period + 1) >= FEWEST_LAYERS:
                candidates.append(Run(start, period, blocks))
    covered = np.zeros(len(kinds), dtype=bool)
    runs = []
    for run in sorted(candidates, key=lambda run: (run.start - run.stop, run.period)):
        if not covered[run.start : run.stop].any():
            covered[run.start : run.stop] = True
            runs.append(run)
    return runs


def _periods(kinds: npt.NDArray[np.int64]) -> list[int]:
    order = np.argsort(kinds, kind="stable")
    distances = np.diff(order)[np.diff(kinds[order]) == 0]
    counts = Counter(distances.tolist())
    return [period for period, count in counts.most_common(_PERIODS) if count >= FEWEST_LAYERS - 1]


def _align_runs(runs: Sequence[Run], operands: Operands) -> list[Run]:
    """The runs connected with the longest one by reads, with the layers of their blocks."""
    reads = _count_block_reads(runs, operands)
    aligned, queue = {0: runs[0]}, [0]
    while queue:
        current = queue.pop()
        for (reader, source), counts in reads.items():
            if current not in (reader, source) or (reader in aligned and source in aligned):
                continue
            # The reader's block j reads block slope * j + shift of the source.
            (layer_step, shift), _ = counts.most_common(1)[0]
            if current == source:
                new = runs[reader]._replace(
                    layer_step=aligned[current].layer_step * layer_step, shift=aligned[current].layer_step * shift + aligned[current].shift
                )
                aligned[reader] = new
                queue.append(reader)
            else:
                source_step = aligned[current].layer_step * layer_step
                aligned[source] = runs[source]._replace(layer_step=source_step, shift=aligned[current].shift - source_step * shift)
                queue.append(source)
    return list(aligned.values())


def _count_block_reads(runs: Sequence[Run], operands: Operands) -> dict[tuple[int, int], Counter[tuple[int, int]]]:
    """By (reading run, run read): the linear maps from block to block, each with its frequency, measured in the middle."""
    owner = np.full(len(operands), -1)
    for number, run in enumerate(runs):
        owner[run.start : run.stop] = number
    maps: dict[tuple[int, int], Counter[tuple[int, int]]] = defaultdict(Counter)
    for number, run in enumerate(runs):
        middle = run.blocks // 2
        for index in range(run.start + middle * run.period, run.start + (middle + 1) * run.period):
            for one, two in zip(operands[index], operands[index + run.period], strict=True):
                if one < 0 or two < 0 or owner[one] < 0 or owner[one] != owner[two] or owner[one] == number:
                    continue
                source = runs[int(owner[one])]
                step, block = (two - one) / source.period, (one - source.start) // source.period
                if step in (1, -1):
                    maps[number, int(owner[one])][int(step), block - int(step) * middle] += 1
    return maps


def _are_alike(layers: RepeatedLayers, operands: Operands) -> bool:
    """Return whether middle layers read counterparts, and others only read middle layers within `KEPT_LAYERS`."""
    return all(_is_alike(layers, operands, index) for index in range(len(operands) - 1))


def _is_alike(layers: RepeatedLayers, operands: Operands, index: int) -> bool:
    position = layers.positions[index]
    if position is not None and layers.is_between(position):
        like_operands = operands[layers.operation_at(position, layers.first - 1)]
        return all(
            _relative_position(layers, one, position.layer) == _relative_position(layers, two, layers.first - 1)
            for one, two in zip(operands[index], like_operands, strict=True)
        )
    sources = [source for source in operands[index] if source >= 0 and layers.is_between(layers.positions[source])]
    return not sources or (
        position is not None and all(0 <= find_counterpart(layers, source, position.layer) < index for source in sources)
    )


def _relative_position(layers: RepeatedLayers, source: int, layer: int) -> tuple[int, int, int]:
    """The origin of an operand relative to its reader's layer; all arguments count as equal."""
    if source < 0 or (position := layers.positions[source]) is None:
        return max(source, -1), 0, 0
    return layers.runs[position.run].start, position.layer - layer, position.offset


def find_counterpart(layers: RepeatedLayers, source: int, reader: int) -> int:
    """The counterpart beyond the middle layers of a middle operation; -1 if not within `KEPT_LAYERS`."""
    position = layers.positions[source]
    assert position is not None
    is_behind = reader >= layers.last
    distance = layers.last - 1 - position.layer if is_behind else position.layer - layers.first
    if distance >= KEPT_LAYERS:
        return -1
    return layers.operation_at(position, layers.first - 1 - distance if is_behind else layers.last + distance)
