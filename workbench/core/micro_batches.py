"""Splitting a batch into micro-batches: which dimension of each leaf is divided, and which leaves every micro-batch gets whole.

The batch dimension of every leaf is divided, in order: of b examples, micro-batch i of m has examples i b/m to (i + 1) b/m. A random key
without a batch dimension is folded with i; anything else is given to each micro-batch whole.
"""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from workbench.core.pipeline_spec import MOST_OF_EACH
from workbench.core.program import Program
from workbench.core.tensor import Tensor
from workbench.errors import PipelineError
from workbench.units import divisors

BATCH = "batch"
_KEYS = ("key", "keys", "rng", "rngs", "seed", "dropout")


class Split(NamedTuple):
    """How one leaf of a batch goes to the micro-batches: divided along `dim`, folded as a key, or (neither) whole."""

    dim: int | None
    folds: bool = False


def plan_input_splits(program: Program, micro_batches: int) -> tuple[Split, ...]:
    """The split of each input of the program. Raises `PipelineError` where `micro_batches` does not divide the batch."""
    inputs = [program.arguments[i] for i in program.inputs]
    name = batch_dim(inputs, program.name)
    for tensor in inputs:
        if name in tensor.dims:
            _verify_divides(tensor, name, micro_batches)
    return tuple(Split(tensor.dims.index(name)) if name in tensor.dims else Split(None, _is_key(tensor)) for tensor in inputs)


def batch_dim(inputs: Sequence[Tensor], name: str) -> str:
    """The dimension called `batch`, else the first of the first input that has one."""
    if any(BATCH in tensor.dims for tensor in inputs):
        return BATCH
    for tensor in inputs:
        if tensor.dims and not _is_key(tensor):
            return tensor.dims[0]
    raise PipelineError(f"No input of {name} has a dimension that could be divided into micro-batches.", [f"name one `{BATCH}`"])


def _verify_divides(tensor: Tensor, name: str, micro_batches: int) -> None:
    size = tensor.shape[tensor.dims.index(name)]
    if size % micro_batches == 0:
        return
    near = sorted(divisors(size), key=lambda count: abs(count - micro_batches))[:2]
    raise PipelineError(
        f"`{tensor}`: {micro_batches} micro-batches do not divide `{name}` ({size}); {size} % {micro_batches} = {size % micro_batches}.",
        [f"make micro_batches {' or '.join(str(each) for each in sorted(near))}", f"make `{name}` a multiple of {micro_batches}"],
    )


def _is_key(tensor: Tensor) -> bool:
    """A typed random key, or a raw one (two words) under the name of a key."""
    raw = tensor.dtype == "uint32" and tensor.shape[-1:] == (2,) and tensor.path.rpartition("/")[2].lower() in _KEYS
    return tensor.dtype.startswith("key<") or raw


def micro_batch_counts(program: Program) -> tuple[int, ...]:
    """The numbers of micro-batches that divide the batch. Raises `PipelineError` where nothing of the inputs can be divided."""
    inputs = [program.arguments[i] for i in program.inputs]
    name = batch_dim(inputs, program.name)
    size = gcd(*(tensor.shape[tensor.dims.index(name)] for tensor in inputs if name in tensor.dims))
    return tuple(count for count in divisors(size) if count <= MOST_OF_EACH)
