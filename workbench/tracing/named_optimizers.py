"""The named optimizers of zoo models, `trace_training` and `workbench plan`, and the state of each.

name        state per float32 parameter               source
sgd         none
momentum    4 bytes                                   Polyak 1964
rmsprop     8, with momentum                          Hinton 2012
adam        8                                         Kingma & Ba 2015, arXiv:1412.6980
adamw       8                                         Loshchilov & Hutter 2019, arXiv:1711.05101
lion        4                                         Chen et al. 2023, arXiv:2302.06675
adafactor   a row and a column of each matrix         Shazeer & Stern 2018, arXiv:1804.04235
adam8bit    2, and a scale per block                  Dettmers et al. 2022, arXiv:2110.02861 (`eight_bit_adam`)
muon        4; 8 for a parameter that is not a matrix Jordan et al. 2024; Liu et al. 2025, arXiv:2502.16982
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import log, prod
from operator import mul
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from optax.contrib import MuonDimensionNumbers, muon

from workbench.errors import TraceError, unknown_name
from workbench.tracing.given_dim_names import Names, names_of_some
from workbench.tracing.leaves import named_leaves
from workbench.tracing.trace_function import Dims

# AdamW with one-byte moments and one float32 scale per block (Dettmers et al. 2022, arXiv:2110.02861).
#
#     first moment    float8_e4m3fn [..., n]      scale float32 [..., n / block]
#     second moment   float8_e4m3fn, its root     scale float32
#
# The types are those of torchao's `AdamFp8`. The 8-bit integers of bitsandbytes have the same size, but would need a table lookup in XLA. A
# block lies along one dimension, and the arrays keep the parameter's shape, so a moment is sharded like its parameter. The second moment is
# stored as its square root, which halves the range of exponents. Arrays of fewer than 4,096 elements stay in float32, as in bitsandbytes.


SMALLEST, BLOCK, SHORTEST = 4096, 256, 32
_CODES = jnp.float8_e4m3fn


class EightBitState(NamedTuple):
    """The step number, and for both moments the codes and the block scales (`None` for a moment in float32)."""

    count: Any
    mu: Any
    mu_scale: Any
    nu_root: Any
    nu_scale: Any


def eight_bit_adamw(learning_rate: float, *, weight_decay: float = 1e-4) -> optax.GradientTransformation:
    """`optax.adamw` with 8-bit moments."""
    return optax.chain(_scale_by_eight_bit_adam(), optax.add_decayed_weights(weight_decay), optax.scale_by_learning_rate(learning_rate))


def block_of(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """The dimension along which a moment is divided into blocks, and their length; `None` for a moment that stays in float32.

    This is the shortest dimension with blocks of at least 128, so that the scales keep the longest dimension, along which state is sharded.

    >>> block_of((32, 4096, 8, 6, 128)), block_of((128256, 4096)), block_of((64, 7)), block_of((80, 1000))
    ((4, 128), (1, 256), None, (1, 250))
    """
    lengths = [max(part for part in range(1, min(size, BLOCK) + 1) if size % part == 0) for size in shape]
    if prod(shape) < SMALLEST or max(lengths) < SHORTEST:
        return None
    return max(enumerate(lengths), key=lambda each: (min(each[1], BLOCK // 2), -shape[each[0]], each[0]))


def _scale_by_eight_bit_adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> optax.GradientTransformation:
    def init(params: Any) -> EightBitState:
        zeros = [_quantize(jnp.zeros(each.shape, jnp.float32)) for each in jax.tree.leaves(params)]
        codes, scales = _trees(params, zeros)
        return EightBitState(jnp.zeros((), jnp.int32), codes, scales, codes, scales)

    def update(gradients: Any, state: EightBitState, params: Any = None) -> tuple[Any, EightBitState]:
        del params
        count = state.count + 1
        changes, first, second = [], [], []
        moments = zip(*(jax.tree.structure(gradients).flatten_up_to(each) for each in state[1:]), strict=True)
        for gradient, (codes, scale, root_codes, root_scale) in zip(jax.tree.leaves(gradients), moments, strict=True):
            exact = gradient.astype(jnp.float32)
            mu = b1 * _dequantize(codes, scale) + (1 - b1) * exact
            root = jnp.sqrt(b2 * jnp.square(_dequantize(root_codes, root_scale)) + (1 - b2) * jnp.square(exact))
            bias = jnp.sqrt(1 - b2**count) / (1 - b1**count)
            changes.append((bias * mu / (root + eps)).astype(gradient.dtype))
            first.append(_quantize(mu))
            second.append(_quantize(root))
        new = EightBitState(count, *_trees(gradients, first), *_trees(gradients, second))
        return jax.tree.unflatten(jax.tree.structure(gradients), changes), new

    return optax.GradientTransformation(init, update)


def _trees(like: Any, pairs: Iterable[tuple[Any, Any]]) -> tuple[Any, Any]:
    """The codes and the scales as two trees with the parameters' structure."""
    codes, scales = zip(*pairs, strict=True)
    structure = jax.tree.structure(like)
    return jax.tree.unflatten(structure, codes), jax.tree.unflatten(structure, scales)


def _quantize(x: Any) -> tuple[Any, Any]:
    """The codes of float32 numbers, and for each block the scale to multiply them by."""
    block = block_of(x.shape)
    if block is None:
        return x, None
    dim, length = block
    blocks = x.reshape(*x.shape[:dim], -1, length, *x.shape[dim + 1 :])
    largest = jnp.max(jnp.abs(blocks), axis=dim + 1, keepdims=True)
    scale = jnp.where(largest > 0, largest / float(jnp.finfo(_CODES).max), 1.0)
    return (blocks / scale).astype(_CODES).reshape(x.shape), scale.squeeze(dim + 1)


def _dequantize(codes: Any, scale: Any) -> Any:
    if scale is None:
        return codes
    dim, length = block_of(codes.shape) or (0, 1)
    blocks = codes.reshape(*codes.shape[:dim], -1, length, *codes.shape[dim + 1 :])
    return (blocks.astype(jnp.float32) * jnp.expand_dims(scale, dim + 1)).reshape(codes.shape)


# The optimizers by name.


LEARNING_RATE = 3e-4
_STACKS = ("layers", "sparse", "experts", "gate_up", "expert_gates")
"""Dimensions along which an array stacks several matrices."""
_TABLES = ("vocab", "seq", "buckets")
"""Dimensions of tables, such as embeddings, heads and positions. AdamW updates tables (Liu et al. 2025, section 2.2)."""


@dataclass(frozen=True, slots=True)
class NamedOptimizer:
    """An optimizer of the table: `make(learning_rate)`, its state in words, and the state's bytes per float32 parameter."""

    make: Callable[[float], optax.GradientTransformation]
    state_bytes: float
    keeps: str


OPTIMIZERS: Mapping[str, NamedOptimizer] = {
    "adamw": NamedOptimizer(optax.adamw, 8, "two moments of AdamW"),
    "adam": NamedOptimizer(optax.adam, 8, "two moments of Adam"),
    "adam8bit": NamedOptimizer(eight_bit_adamw, 2 + 8 / 256, "two moments of AdamW in 8 bits"),
    "adafactor": NamedOptimizer(optax.adafactor, 0, "a row and a column of each matrix for Adafactor"),
    "lion": NamedOptimizer(optax.lion, 4, "the momentum of Lion"),
    "muon": NamedOptimizer(muon, 4, "the momentum of Muon"),
    "momentum": NamedOptimizer(lambda rate: optax.sgd(rate, momentum=0.9), 4, "the momentum of SGD"),
    "rmsprop": NamedOptimizer(lambda rate: optax.rmsprop(rate, momentum=0.9), 8, "two moments of RMSProp"),
    "sgd": NamedOptimizer(optax.sgd, 0, "no state of SGD"),
}


def find_optimizer(name: str) -> NamedOptimizer:
    """The optimizer with this name. Raises `TraceError`, which suggests similar names."""
    if name not in OPTIMIZERS:
        raise TraceError(*unknown_name("optimizer", name, OPTIMIZERS))
    return OPTIMIZERS[name]


def optimizer(text: str, *, params: Any = None, dims: Dims = None) -> optax.GradientTransformation:
    """The optimizer with this name, and a learning rate after the name if it is not 3e-4: `wb.optimizer("lion 1e-4")`.

    Muon updates matrices: by default every parameter with two dimensions. With `params`, a pytree, and its `dims` (see
    `trace_training`), the names of the dimensions decide.

    Raises `TraceError` for an unknown name.
    """
    name, _, rate = text.strip().partition(" ")
    make, learning_rate = find_optimizer(name).make, _read_rate(rate)
    if name != "muon" or not dims:
        return make(learning_rate)
    paths, leaves = named_leaves("params", params)
    names = names_of_some(dims, {path: leaf.shape for path, leaf in zip(paths, leaves, strict=True)})
    return muon(learning_rate, muon_weight_dimension_numbers=lambda tree: _matrices_of(tree, names))


def _read_rate(text: str) -> float:
    try:
        return float(text) if text else LEARNING_RATE
    except ValueError:
        raise TraceError(f"`{text[:40]}` is not a learning rate.", ['write a number after the name, "lion 1e-4"']) from None


def _matrices_of(params: Any, names: Mapping[str, Names]) -> Any:
    """The dimensions of each parameter's matrices, or `None`. In a pipeline stage a layer may be an element of a tuple: `params/w/3`."""
    found = []
    for path, leaf in zip(*named_leaves("params", params), strict=True):
        own = names.get(path) or names.get(path.rpartition("/")[0], ())[1:] or (None,) * len(leaf.shape)
        found.append(matrix_dims(leaf.shape, own))
    return jax.tree.unflatten(jax.tree.structure(params), found)


def matrix_dims(shape: tuple[int, ...], names: Names) -> MuonDimensionNumbers | None:
    """The input and output dimensions of the matrices in a weight, split into sides of similar size; `None` for tables and vectors.

    >>> matrix_dims((32, 4096, 8, 6, 128), ("layers", "d_model", "kv_heads", "qkv", "d_head"))
    MuonDimensionNumbers(reduction_axis=(1,), output_axis=(2, 3, 4))
    >>> matrix_dims((128256, 4096), ("vocab", "d_model")), matrix_dims((32, 4096), ("layers", "d_model"))
    (None, None)
    """
    dims = tuple(dim for dim, name in enumerate(names) if name not in _STACKS)
    if len(dims) < 2 or not set(names).isdisjoint(_TABLES):
        return None
    whole = log(prod(shape[dim] for dim in dims))
    inputs = list(accumulate((shape[dim] for dim in dims[:-1]), mul))
    split = min(range(len(inputs)), key=lambda at: abs(2 * log(inputs[at]) - whole)) + 1
    return MuonDimensionNumbers(dims[:split], dims[split:])
