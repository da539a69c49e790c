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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import log, prod
from operator import mul
from typing import Any

import jax
import optax
from optax.contrib import MuonDimensionNumbers, muon

from workbench.errors import TraceError, unknown_name
from workbench.tracing.eight_bit_adam import eight_bit_adamw
from workbench.tracing.given_dim_names import Names, names_of_some
from workbench.tracing.leaves import named_leaves
from workbench.tracing.trace_function import Dims

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
