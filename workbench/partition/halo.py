"""Halo exchange: devices along a cut dimension send each other the borders of their parts, by collective-permute.

    whole       0 1 2 3 | 4 5 6 7 | 8 9 . .       three parts of 4
    part 1 reads    3 [ 4 5 6 7 ] 8               left halo 1, right halo 1: two permutes of one row

After XLA's `ExchangeHalo`, `ExchangeHaloCompact` and `ExchangeHaloAndGetValidData` (openxla/xla, `spmd_partitioner_util.cc`). Halos are
told for each part: how many elements before (after) its own it reads; negative where it does not read all of its own. Every device runs
the same program, so the longest halo is sent by all, and a halo longer than a part comes from several neighbours, a permute from each.
"""

import math
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


def toward_zero(number: int, divisor: int) -> int:
    """Whole division as C++ has it.

    >>> toward_zero(-1, 2), toward_zero(7, 2)
    (0, 3)
    """
    return -(-number // divisor) if number < 0 else number // divisor


def exchange(part: int, left: Sequence[int], right: Sequence[int], padding: int, wanted: int, whole: int) -> tuple[Piece, ...] | None:
    """The permutes that give every part of `part` elements what it reads; `None` where XLA gathers the dimension instead.

    `padding` are elements before the first part that are not there, `wanted` the most that any part reads, `whole` the dimension's size.

    >>> [piece.size for piece in exchange(4, (1, 1, 1), (1, 1, 1), 1, 6, 12)]
    [1, 1]
    """
    most = part + max(before + after for before, after in zip(left, right, strict=True))
    if padding == left[0] and most == wanted and max(*left, *right) > 2 * wanted:
        return None if 2 * most >= len(left) * part else compact(part, left, right, whole)
    return _neighbours(part, left, right)


def _neighbours(part: int, left: Sequence[int], right: Sequence[int]) -> tuple[Piece, ...] | None:
    count, before, after = len(left), max(left[1:]), max(right[:-1])
    if before + after + part >= part * count and max(before, after) > part:
        return None
    low, high = -max(left), part + max(right)
    if low >= high:
        return None
    return tuple(piece for piece in (*_left(part, count, before, high), *_right(part, count, after, low)) if piece.size > 0)


def _left(part: int, count: int, before: int, high: int) -> Iterator[Piece]:
    for i in range(math.ceil(before / part) - 1, -1, -1):
        if (-i - 1) * part >= high:
            return
        skipped = max(-i * part - high, 0)
        yield Piece(min(before - part * i, part) - skipped, tuple((k - i - 1, k) for k in range(i + 1, count)))


def _right(part: int, count: int, after: int, low: int) -> Iterator[Piece]:
    first = min(max(low - part, 0), max(after, 0)) // part
    for i in range(first, math.ceil(after / part)):
        skipped = max(low - (i + 1) * part, 0)
        yield Piece(min(after - part * i, part) - skipped, tuple((k, k - i - 1) for k in range(i + 1, count)))


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
