"""Predict the time of a dot or convolution on a GPU, with the fastest algorithm of its library.

cuBLAS picks by a heuristic, cuDNN by trial (`cudnnFindConvolutionForwardAlgorithm`, used by XLA's autotuning and
PyTorch's benchmark mode); here the minimum of the modeled times is taken. The algorithms:

- *blocks*: the result in blocks, one per unit, in waves (`matmul_tiles.blocks_volume`). A convolution is the dot of its
  windows with its kernel, never materialized (cuDNN's implicit GEMM): places x features, contracted over taps x
  channels; a kernel gradient has few blocks, taps x channels by features, and a deep contraction over all places;
- *split-K*: if blocks leave units idle, each is split along the contraction. Partial sums are written in float32 and
  added in another small kernel (CUTLASS, "Efficient GEMM", Parallelized Reductions; cuBLASLt,
  `CUBLASLT_ALGO_CONFIG_SPLITK_NUM`);
- *Winograd*, F(m x m, 3 x 3) of Lavin and Gray 2016 (arXiv:1509.09308): (m + 2)^2 multiplications per tile of m x m
  places instead of 9 m^2, as that many dots over channels. As cuDNN's `WINOGRAD_NONFUSED`: both operands are
  transformed, the dots computed, and the result transformed back, each through memory. Only for float32 or float16
  without tensor cores;
- *direct*: groups of few channels (depthwise convolution) are computed on the vector unit, faster than in blocks.
"""

from functools import lru_cache
from math import ceil, prod
from typing import NamedTuple

from workbench.core.tensor import itemsize
from workbench.cost.tile_padding import blocks_volume, round_up
from workbench.hardware.hardware import Chip
from workbench.propagation.structure.operation_work import Convolution

SPLITS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32)
"""Splits of the contraction to try, as in NVIDIA's cuBLASLt sample (`LtSgemmCustomFind`, `splitKSequenceA`), and none."""
_PARTIAL = 4  # bytes of a partial sum: float32
_LANE_BYTES = 8  # processed by a lane per multiply-add: one float32 (2 FLOP) or two float16 (4 FLOP)
_ROUNDED = 1.05  # rounding of published peaks
_ALIGNED = 16  # bytes of channels per tensor core load (NVIDIA, Convolutional Layers User's Guide, "Channels In And Out")
_WINDOW = (3, 3)
_SMALLEST_PICTURE = 8  # side length; a larger window is an image, in a kernel gradient
_TILES = (2, 4)  # side lengths
_WINOGRAD_DTYPES = ("float32", "float16")
_WINOGRAD_LAUNCHES = 3  # two transforms before the dots, one after


class BlockedDot(NamedTuple):
    """`batch` dots of rows x columns, each contracted over `summed` products."""

    batch: int
    rows: int
    columns: int
    summed: float

    @property
    def results(self) -> int:
        return self.batch * self.rows * self.columns


@lru_cache(maxsize=1 << 14)
def product_seconds(dot: BlockedDot, dtype: str, chip: Chip) -> float:
    """Return the seconds of a dot with the fastest split-K."""
    deep = chip.matmul_tile[2]
    return min(_split_seconds(dot, splits, dtype, chip) for splits in SPLITS if splits == 1 or dot.summed > (splits - 1) * deep)


def _split_seconds(dot: BlockedDot, splits: int, dtype: str, chip: Chip) -> float:
    volume = blocks_volume(*dot, chip.matmul_tile, splits, narrow=not has_tensor_cores(chip, dtype))
    seconds = 2 * volume / (chip.peak(dtype) * chip.efficiency_of("matmul"))
    if splits == 1:
        return seconds
    return seconds + 2 * splits * dot.results * _PARTIAL / _bandwidth(chip) + chip.launch


def convolution_seconds(convolution: Convolution, shape: tuple[int, ...], summed: float, dtype: str, chip: Chip) -> float:
    """Return the seconds of a convolution with this local result shape, each element a sum of `summed` products."""
    features = shape[convolution.features]
    columns = max(features // convolution.groups, 1)
    lowered = BlockedDot(features // columns, prod(shape) // max(features, 1), columns, summed)
    if prod(convolution.window) <= prod(shape[dim] for dim in convolution.places):  # otherwise a kernel gradient: a sum over images
        lowered = _align_channels(lowered, prod(convolution.window), dtype, chip)
    candidates = [product_seconds(lowered, dtype, chip)]
    if convolution.groups > 1:
        candidates.append(lowered.results * summed / (chip.vector_flops * chip.efficiency_of("vector")))
    if _allows_winograd(convolution, shape) and dtype in _WINOGRAD_DTYPES and not has_tensor_cores(chip, dtype):
        candidates += [_winograd_seconds(side, convolution, shape, summed, dtype, chip) for side in _TILES]
    return min(candidates)


def has_tensor_cores(chip: Chip, dtype: str) -> bool:
    """Return whether dots in this dtype exceed the peak of the vector unit's lanes."""
    return chip.peak(dtype) > _ROUNDED * _LANE_BYTES / itemsize(dtype) * chip.vector_flops


def _align_channels(dot: BlockedDot, taps: int, dtype: str, chip: Chip) -> BlockedDot:
    """Round channels per tap up to a tensor core load: 3 channels of an image are 8 in float16."""
    if not has_tensor_cores(chip, dtype) or dot.summed % taps:
        return dot
    return dot._replace(summed=taps * round_up(dot.summed / taps, max(int(_ALIGNED / itemsize(dtype)), 1)))


def _allows_winograd(convolution: Convolution, shape: tuple[int, ...]) -> bool:
    """Return whether it is a plain 3 x 3 convolution, or the gradient of such a kernel, with a 3 x 3 result."""
    places = tuple(shape[dim] for dim in convolution.places)
    if convolution.window != _WINDOW and min(convolution.window, default=0) < _SMALLEST_PICTURE:
        return False
    return convolution.groups == 1 and convolution.is_plain and _WINDOW in (convolution.window, places)


def _winograd_seconds(side: int, convolution: Convolution, shape: tuple[int, ...], summed: float, dtype: str, chip: Chip) -> float:
    """Return the seconds of F(side x side, 3 x 3); a kernel gradient contracts over tiles instead of channels."""
    features, places = shape[convolution.features], tuple(shape[dim] for dim in convolution.places)
    rest = prod(shape) // max(features * prod(places), 1)
    is_forward = convolution.window == _WINDOW
    pictures, channels = (rest, summed / prod(_WINDOW)) if is_forward else (summed / prod(convolution.window), rest)
    plane = places if is_forward else convolution.window
    tiles = max(ceil(pictures), 1) * prod(ceil(size / side) for size in plane)
    points = (side + 2) ** 2
    sides = (tiles, features, channels) if is_forward else (rest, features, float(tiles))
    product = product_seconds(BlockedDot(points, *sides), dtype, chip)
    transformed = points * (tiles * (channels + features) + channels * features)
    plain = pictures * prod(plane) * (channels + features) + prod(_WINDOW) * channels * features
    once, outside = (count * itemsize(dtype) / _bandwidth(chip) for count in (transformed, plain))
    return outside + once + max(product, once) + _WINOGRAD_LAUNCHES * chip.launch


def _bandwidth(chip: Chip) -> float:
    return chip.memory_bandwidth * chip.efficiency_of("memory")
