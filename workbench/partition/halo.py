"""What parts of a dimension fetch from others before they are laid out anew, by collective-permute.

After XLA's `ExchangeHaloCompact` (openxla/xla, `spmd_partitioner_util.cc`). Halos are told for each part: how many elements before (after)
its own it reads; negative where it does not read all of its own.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Piece(NamedTuple):
    """One permute: how many elements along the dimension, and which part sends to which."""

    size: int
    pairs: tuple[tuple[int, int], ...]


class _Need(NamedTuple):
    """A stretch that part `reader` fetches from another."""

    reader: int
    start: int  # within the part it is from
    limit: int
    offset: int  # within what the reader reads


def compact(part: int, left: Sequence[int], right: Sequence[int], whole: int) -> tuple[Piece, ...]:
    """Where parts read little from far away, a permute serves different distances: each takes one stretch from each part."""
    wanted: list[list[_Need]] = [[] for _ in left]
    for reader in range(len(left)):
        start, limit = reader * part - left[reader], (reader + 1) * part + right[reader]
        for source, need in _stretches(part, start, limit, whole, reader):
            if source != reader:
                wanted[source].append(need)
    for needs in wanted:
        needs.sort(key=lambda need: need.offset)
    found = []
    while any(wanted):
        found.append(_one_permute(part, wanted))
    return tuple(found)


def _stretches(part: int, start: int, limit: int, whole: int, reader: int) -> Iterator[tuple[int, _Need]]:
    """What lies between `start` and `limit`, part by part; what lies outside of the whole is padding."""
    at = max(start, 0)
    while at < min(limit, whole):
        size = min(part - at % part, limit - at)
        yield at // part, _Need(reader, at % part, at % part + size, at - start)
        at += size


def _one_permute(part: int, wanted: list[list[_Need]]) -> Piece:
    """Take the first stretch of each source, unless its reader is served or it would make the permute much longer."""
    pairs: list[tuple[int, int]] = []
    start, limit = part, 0
    for source, needs in enumerate(wanted):
        if not needs:
            continue
        need = needs[0]
        lies_apart = (start > need.limit and limit == part and need.start == 0) or (
            limit < need.start and start == 0 and need.limit == part
        )
        if pairs and (lies_apart or any(reader == need.reader for _, reader in pairs)):
            continue
        pairs.append((source, need.reader))
        start, limit = min(start, need.start), max(limit, need.limit)
        needs.pop(0)
    return Piece(limit - start, tuple(pairs))
