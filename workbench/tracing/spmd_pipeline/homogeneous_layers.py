"""The run of equal layers in a network, as one function over stacked weights: what a pipeline whose stages work in step needs.

Before the run is the prefix (or nothing: the first layer reads the batch where the others read the layer before), behind it the suffix.
A layer is given what the layer before it made (`carry`) and what the prefix made for all layers alike (`shared`: a mask, positions). Two
layers are equal if their jaxprs are, letter by letter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import jax

from workbench.core.program_cache import kept_with_owner
from workbench.errors import PipelineError
from workbench.tracing.stage_partition.block_programs import block_tasks
from workbench.tracing.stage_partition.network import Network
from workbench.tracing.stage_partition.stage_tasks import StageTasks
from workbench.tracing.stage_partition.stages import Cut, Segment, cut_network

Arrays = Sequence[Any]
Name = tuple[str, int]  # ("batch", leaf of it) or ("value", of the cut)


@dataclass(frozen=True)
class HomogeneousLayers:
    """`layer(pieces, batch, shared, carry) -> carry`, flat tuples all.

    - `prefix` (`None`: the run begins the network), `suffix`; `pieces`: of each layer the numbers of its parameters, in one order;
    - `batch`: numbers of the leaves of the batch that every layer reads;
    - `shared`: numbers of the cut's values that all layers read; `carry`: what the first is given; `last`: the values the last one makes.
    """

    cut: Cut
    prefix: Segment | None
    layer: Callable[[Arrays, Arrays, Arrays, Arrays], tuple[Any, ...]]
    pieces: tuple[tuple[int, ...], ...]
    batch: tuple[int, ...]
    shared: tuple[int, ...]
    carry: tuple[Name, ...]
    last: tuple[int, ...]

    @property
    def suffix(self) -> Segment:
        return self.cut.segments[-1]


@kept_with_owner
def homogeneous_layers(network: Network) -> HomogeneousLayers:
    """The longest run of equal layers. Raises `PipelineError` where there is none, or its layers do not hand on what they are given."""
    begin, end = _longest_run(network)
    cut = cut_network(network, range(max(begin, 1), end + 1))
    prefix, layers = (cut.segments[0], cut.segments[1:-1]) if begin else (None, cut.segments[:-1])
    batch = layers[1].batch
    shared = tuple(value for value in layers[1].entering if value not in layers[0].leaving)
    carries = [_in_order(cut, segment, _given(segment, batch, shared)) for segment in layers]
    made = [_in_order(cut, segment, [("value", value) for value in segment.leaving]) for segment in layers]
    for segment, given, earlier in zip(layers[1:], carries[1:], made, strict=False):
        if set(given) != set(earlier) or not set(shared) <= set(segment.entering):
            raise _unequal(network, segment, "reads or makes other values than the one before it")
    for segment in layers[:-1]:
        if any(cut.values[value].readers != (segment.number + 1,) for value in segment.leaving):
            raise _unequal(network, segment, "makes something that is read beyond the one behind it")
    common = (*(("batch", leaf) for leaf in batch), *(("value", value) for value in shared))
    calls = [_call(segment, (*common, *given), out) for segment, given, out in zip(layers, carries, made, strict=True)]
    texts = [_text(cut, segment, call, (batch, shared, given)) for segment, call, given in zip(layers, calls, carries, strict=True)]
    for segment, text in zip(layers, texts, strict=True):
        if text != texts[0]:
            raise _unequal(network, segment, "computes something else than the first one")
    last = tuple(value for _, value in made[-1])
    return HomogeneousLayers(cut, prefix, calls[0], tuple(each.pieces for each in layers), batch, shared, carries[0], last)


def _given(segment: Segment, batch: Sequence[int], shared: Sequence[int]) -> list[Name]:
    """What a layer alone reads: of the one before it, of the batch if it is the first of all."""
    own = [("batch", leaf) for leaf in segment.batch if leaf not in batch]
    return [*own, *(("value", value) for value in segment.entering if value not in shared)]


def _longest_run(network: Network) -> tuple[int, int]:
    """Where the longest run of blocks that look alike, with something behind it, begins and ends."""
    alike = [(block.layer_key, number) for number, block in enumerate(block_tasks(network))]
    runs = [[number for _, number in run] for _, run in groupby(alike, key=lambda each: each[0])]
    inner = [[number for number in run if number < len(alike) - 1] for run in runs]
    longest = max(inner, key=len, default=[])
    if len(longest) < 2:
        paths = ", ".join(f"`{path}`" for path in network.paths[:8])
        raise PipelineError(
            f"Engine `spmd` runs equal layers in step; `{network.name}` has no two equal blocks in a row before its last one "
            f"({paths}{' and more' if len(network.paths) > 8 else ''}).",
            ["take engine:mpmd, whose stages may differ"],
        )
    return longest[0], longest[-1] + 1


def _in_order(cut: Cut, segment: Segment, names: Sequence[Name]) -> tuple[Name, ...]:
    """What is handed on, by shape and type; two of one kind could be mistaken for each other."""
    avals = {name: _aval(cut, name) for name in names}
    types = {name: f"{aval.dtype}{list(aval.shape)}" for name, aval in avals.items()}
    if len(set(types.values())) < len(types):
        raise _unequal(cut.network, segment, f"hands on several values of one shape ({', '.join(types.values())})")
    return tuple(sorted(names, key=types.__getitem__))


def _aval(cut: Cut, name: Name) -> Any:
    kind, number = name
    return cut.network.flat.batch[number].aval if kind == "batch" else cut.values[number].aval


def _call(segment: Segment, names: Sequence[Name], made: Sequence[Name]) -> Callable[[Arrays, Arrays, Arrays, Arrays], tuple[Any, ...]]:
    """A segment that is given what has these names, in their order, and returns what it made in order."""
    reads = [*(("batch", leaf) for leaf in segment.batch), *(("value", value) for value in segment.entering)]

    def layer(pieces: Arrays, batch: Arrays, common: Arrays, carry: Arrays) -> tuple[Any, ...]:
        known = dict(zip(names, (*batch, *common, *carry), strict=True))
        results = segment.call(*pieces, *(known[name] for name in reads))
        by_value = dict(zip(segment.leaving, results, strict=True))
        return tuple(by_value[value] for _, value in made)

    return layer


def _text(cut: Cut, segment: Segment, call: Callable[..., Any], given: tuple[Sequence[int], Sequence[int], Sequence[Name]]) -> str:
    batch, shared, carry = given
    names = [[("batch", leaf) for leaf in batch], [("value", value) for value in shared], carry]
    avals = [[_aval(cut, name) for name in group] for group in names]
    specs = [[jax.ShapeDtypeStruct(each.shape, each.dtype) for each in group] for group in avals]
    closed = jax.make_jaxpr(call)(StageTasks(cut, segment).pieces, *specs)
    return f"{closed.jaxpr}{[getattr(const, 'shape', ()) and const.tolist() for const in closed.consts]}"


def _unequal(network: Network, segment: Segment, why: str) -> PipelineError:
    return PipelineError(
        f"Engine `spmd` runs equal layers in step, and `{segment.blocks[0]}` of `{network.name}` {why}.",
        ["take engine:mpmd, whose stages may differ", "scan the layers over stacked weights"],
    )
