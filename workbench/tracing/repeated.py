"""The run of equal layers in a network, as one function over stacked weights: what a pipeline whose stages work in step needs.

Before the run is the prefix, behind it the suffix. A layer is given what the layer before it made (`carry`) and what the prefix made for
all layers alike (`shared`: a mask, positions). Two layers are equal if their jaxprs are, letter by letter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import jax

from workbench.errors import PipelineError
from workbench.tracing.block_programs import block_tasks
from workbench.tracing.cut import Cut, Segment, cut_network
from workbench.tracing.network import Network
from workbench.tracing.stage_tasks import StageTasks

Arrays = Sequence[Any]


@dataclass(frozen=True)
class Repeated:
    """`layer(pieces, batch, shared, carry) -> carry`, flat tuples all.

    - `cut`: prefix, each layer, suffix; `pieces`: of each layer the numbers of its parameters, in one order;
    - `batch`: numbers of the leaves of the batch that every layer reads;
    - `shared`, `carry`: numbers of the cut's values: what all layers read, what the first is given; `last`: what the last one makes.
    """

    cut: Cut
    layer: Callable[[Arrays, Arrays, Arrays, Arrays], tuple[Any, ...]]
    pieces: tuple[tuple[int, ...], ...]
    batch: tuple[int, ...]
    shared: tuple[int, ...]
    carry: tuple[int, ...]
    last: tuple[int, ...]


def repeated(network: Network) -> Repeated:
    """The longest run of equal layers. Raises `PipelineError` where there is none, or its layers do not hand on what they are given."""
    begin, end = _longest_run(network)
    cut = cut_network(network, range(begin, end + 1))
    layers = cut.segments[1:-1]
    shared = tuple(value for value in layers[1].entering if value not in layers[0].leaving)
    carries = [_in_order(cut, segment, [value for value in segment.entering if value not in shared]) for segment in layers]
    made = [_in_order(cut, segment, segment.leaving) for segment in layers]
    for segment, given, earlier in zip(layers[1:], carries[1:], made, strict=False):
        if set(given) != set(earlier) or not set(shared) <= set(segment.entering):
            raise _unequal(network, segment, "reads or makes other values than the one before it")
    calls = [_call(segment, shared, given, out) for segment, given, out in zip(layers, carries, made, strict=True)]
    texts = [_text(cut, segment, call, shared, given) for segment, call, given in zip(layers, calls, carries, strict=True)]
    for segment, text in zip(layers, texts, strict=True):
        if text != texts[0] or segment.batch != layers[0].batch:
            raise _unequal(network, segment, "computes something else than the first one")
    return Repeated(cut, calls[0], tuple(each.pieces for each in layers), layers[0].batch, shared, carries[0], made[-1])


def _longest_run(network: Network) -> tuple[int, int]:
    """The first and the last block but one of the longest run of blocks that look alike, with something before and behind it."""
    alike = [(block.likeness, number) for number, block in enumerate(block_tasks(network))]
    runs = [[number for _, number in run] for _, run in groupby(alike, key=lambda each: each[0])]
    inner = [[number for number in run if 0 < number < len(alike) - 1] for run in runs]
    longest = max(inner, key=len, default=[])
    if len(longest) < 2:
        paths = ", ".join(f"`{path}`" for path in network.paths[:8])
        raise PipelineError(
            f"Engine `spmd` runs equal layers in step; `{network.name}` has no two equal blocks in a row between its first and its last "
            f"one ({paths}{' and more' if len(network.paths) > 8 else ''}).",
            ["take engine:mpmd, whose stages may differ"],
        )
    return longest[0], longest[-1] + 1


def _in_order(cut: Cut, segment: Segment, values: Sequence[int]) -> tuple[int, ...]:
    """Values handed on, by shape and type; two of one kind could be mistaken for each other."""
    told = {value: f"{cut.values[value].aval.dtype}{list(cut.values[value].aval.shape)}" for value in values}
    if len(set(told.values())) < len(told):
        raise _unequal(cut.network, segment, f"hands on several values of one shape ({', '.join(told.values())})")
    return tuple(sorted(values, key=told.__getitem__))


def _call(
    segment: Segment, shared: tuple[int, ...], given: tuple[int, ...], made: tuple[int, ...]
) -> Callable[[Arrays, Arrays, Arrays, Arrays], tuple[Any, ...]]:
    """A segment with its values in the order of these."""

    def layer(pieces: Arrays, batch: Arrays, common: Arrays, carry: Arrays) -> tuple[Any, ...]:
        known = dict(zip((*shared, *given), (*common, *carry), strict=True))
        results = segment.call(*pieces, *batch, *(known[value] for value in segment.entering))
        by_value = dict(zip(segment.leaving, results, strict=True))
        return tuple(by_value[value] for value in made)

    return layer


def _text(cut: Cut, segment: Segment, call: Callable[..., Any], shared: tuple[int, ...], given: tuple[int, ...]) -> str:
    stage = StageTasks(cut, segment)
    avals = [[cut.values[value].aval for value in values] for values in (shared, given)]
    specs = [[jax.ShapeDtypeStruct(each.shape, each.dtype) for each in group] for group in (stage.pieces, stage.batch, *avals)]
    closed = jax.make_jaxpr(call)(*specs)
    return f"{closed.jaxpr}{[getattr(const, 'shape', ()) and const.tolist() for const in closed.consts]}"


def _unequal(network: Network, segment: Segment, why: str) -> PipelineError:
    return PipelineError(
        f"Engine `spmd` runs equal layers in step, and `{segment.blocks[0]}` of `{network.name}` {why}.",
        ["take engine:mpmd, whose stages may differ", "scan the layers over stacked weights"],
    )
