"""Repeated layers of an unrolled program, found once a trace.

A model of 96 layers that is not scanned is 96 times the same operations: forward, backward and in the optimiser. Operations are compared by
what propagation looks at, their kind, rule and types: a stretch that repeats with a period is a run of blocks. Blocks of several runs
belong to one layer where they read each other. A layer whose operands are connected otherwise than the others' does not count as a repeat.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FEWEST_LAYERS = 12  # layers from which on it is worth it
KEPT_LAYERS = 3  # layers at either end that stay: what comes before and behind may reach into them

Operands = Sequence[Sequence[int]]  # of each operation: those that make its operands; negative for an argument
_PERIODS = 64  # periods that are tried, the most frequent first


class Run(NamedTuple):
    """`blocks` times `period` alike operations in a row, from `start`; block `j` belongs to layer `slope * j + shift`."""

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
        """The first and the last layer."""
        ends = (self.shift, self.layer_step * (self.blocks - 1) + self.shift)
        return min(ends), max(ends)


class LayerPosition(NamedTuple):
    """Where an operation of a run stands: the run's number, its layer, and its offset in the block."""

    run: int
    layer: int
    offset: int


class RepeatedLayers(NamedTuple):
    """Runs whose blocks belong to the same layers; those from `first` to `last` (exclusive) are the same in all of them."""

    runs: tuple[Run, ...]
    first: int
    last: int
    positions: tuple[LayerPosition | None, ...]  # of every operation; `None` outside of the runs

    def operation_at(self, position: LayerPosition, layer: int) -> int:
        """The counterpart in another layer of the operation at `position`."""
        run = self.runs[position.run]
        return run.start + (layer - run.shift) * run.layer_step * run.period + position.offset

    def is_between(self, position: LayerPosition | None) -> bool:
        """Whether an operation belongs to a middle layer: one like the layer before it, and like the one behind."""
        return position is not None and self.first <= position.layer < self.last


def find_layers(kinds: Sequence[int], operands: Operands) -> RepeatedLayers | None:
    """The layers of a program of operations with these kinds and operands, the program's return last; `None` if they are few or connected
    differently."""
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
    """Stretches that repeat, the longest first; none overlaps another."""
    found = []
    for period in _periods(kinds):
        same = np.concatenate(([False], kinds[:-period] == kinds[period:], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if (blocks := (stop - start) // period + 1) >= FEWEST_LAYERS:
                found.append(Run(start, period, blocks))
    taken = np.zeros(len(kinds), dtype=bool)
    runs = []
    for run in sorted(found, key=lambda run: (run.start - run.stop, run.period)):
        if not taken[run.start : run.stop].any():
            taken[run.start : run.stop] = True
            runs.append(run)
    return runs


def _periods(kinds: npt.NDArray[np.int64]) -> list[int]:
    """The distances between equal operations, the most frequent first."""
    order = np.argsort(kinds, kind="stable")
    distances = np.diff(order)[np.diff(kinds[order]) == 0]
    counts = Counter(distances.tolist())
    return [period for period, count in counts.most_common(_PERIODS) if count >= FEWEST_LAYERS - 1]


def _align_runs(runs: Sequence[Run], operands: Operands) -> list[Run]:
    """The runs that read or are read by the longest one, or by those that do, with the layers of their blocks."""
    reads = _count_block_reads(runs, operands)
    known, waiting = {0: runs[0]}, [0]
    while waiting:
        at = waiting.pop()
        for (reader, source), counts in reads.items():
            if at not in (reader, source) or (reader in known and source in known):
                continue
            # The reader's block j reads block slope * j + shift of the source.
            (layer_step, shift), _ = counts.most_common(1)[0]
            if at == source:
                new = runs[reader]._replace(
                    layer_step=known[at].layer_step * layer_step, shift=known[at].layer_step * shift + known[at].shift
                )
                known[reader] = new
                waiting.append(reader)
            else:
                mine = known[at].layer_step * layer_step
                known[source] = runs[source]._replace(layer_step=mine, shift=known[at].shift - mine * shift)
                waiting.append(source)
    return list(known.values())


def _count_block_reads(runs: Sequence[Run], operands: Operands) -> dict[tuple[int, int], Counter[tuple[int, int]]]:
    """By reading run and run that is read: how blocks read blocks, as a line through two neighbours in the middle, and how often so."""
    owner = np.full(len(operands), -1)
    for number, run in enumerate(runs):
        owner[run.start : run.stop] = number
    found: dict[tuple[int, int], Counter[tuple[int, int]]] = defaultdict(Counter)
    for number, run in enumerate(runs):
        middle = run.blocks // 2
        for index in range(run.start + middle * run.period, run.start + (middle + 1) * run.period):
            for one, two in zip(operands[index], operands[index + run.period], strict=True):
                if one < 0 or two < 0 or owner[one] < 0 or owner[one] != owner[two] or owner[one] == number:
                    continue
                source = runs[int(owner[one])]
                step, at = (two - one) / source.period, (one - source.start) // source.period
                if step in (1, -1):
                    found[number, int(owner[one])][int(step), at - int(step) * middle] += 1
    return found


def _are_alike(layers: RepeatedLayers, operands: Operands) -> bool:
    """Whether every operation of a middle layer reads what its counterpart in the layer before them reads, as many layers away, and every
    other reader of these is the return, or in a layer no further away than the number of layers that stay."""
    return all(_is_alike(layers, operands, index) for index in range(len(operands) - 1))


def _is_alike(layers: RepeatedLayers, operands: Operands, index: int) -> bool:
    position = layers.positions[index]
    if position is not None and layers.is_between(position):
        like = operands[layers.operation_at(position, layers.first - 1)]
        return all(
            _relative_position(layers, one, position.layer) == _relative_position(layers, two, layers.first - 1)
            for one, two in zip(operands[index], like, strict=True)
        )
    sources = [each for each in operands[index] if each >= 0 and layers.is_between(layers.positions[each])]
    return not sources or (position is not None and all(0 <= find_stand_in(layers, each, position.layer) < index for each in sources))


def _relative_position(layers: RepeatedLayers, source: int, layer: int) -> tuple[int, int, int]:
    """Where an operand comes from, relative to its reader's layer; arguments are all alike here."""
    if source < 0 or (position := layers.positions[source]) is None:
        return max(source, -1), 0, 0
    return layers.runs[position.run].start, position.layer - layer, position.offset


def find_stand_in(layers: RepeatedLayers, source: int, reader: int) -> int:
    """What a reader in a layer that stays reads in place of an operation of a middle layer: its counterpart on the other side of them; -1
    if that is further away than the number of layers that stay."""
    position = layers.positions[source]
    assert position is not None
    is_behind = reader >= layers.last
    far = layers.last - 1 - position.layer if is_behind else position.layer - layers.first
    if far >= KEPT_LAYERS:
        return -1
    return layers.operation_at(position, layers.first - 1 - far if is_behind else layers.last + far)
