"""Seconds of a dot or a convolution on a GPU, by the fastest of the algorithms that its library has for it.

cuBLAS picks by a heuristic, cuDNN by trying (`cudnnFindConvolutionForwardAlgorithm`, which XLA's autotuning and PyTorch's benchmark mode
use); here the least of the modelled times is taken. The algorithms:

- *blocks*: the result in blocks, one a unit, in waves (`matmul_tiles.blocks_volume`). A convolution is the dot of its windows with its
  kernel, never written out (cuDNN's implicit GEMM): places x features, summed over taps x channels; the gradient of a kernel is one of few
  blocks, taps x channels by features, and of a deep sum over all places;
- *split sums* (split-K): where blocks leave units idle, each is split along the sum. The parts are written in float32, read again and
  added in one more small kernel (CUTLASS, "Efficient GEMM", Parallelized Reductions; cuBLASLt, `CUBLASLT_ALGO_CONFIG_SPLITK_NUM`);
- *Winograd*, F(m x m, 3 x 3) of Lavin and Gray 2016 (arXiv:1509.09308): (m + 2)^2 multiplications a tile of m x m places in place of
  9 m^2, as so many dots over channels. Here as cuDNN's `WINOGRAD_NONFUSED`: both operands are transformed, the dots made, and the result
  transformed back, each through memory. Only on units without tensor cores: on these it is for float32 or float16 without them;
- *direct*: groups of few channels (a depthwise convolution) are multiplied on the vector unit, whose rate a dot's blocks do not reach.
"""

from functools import lru_cache
from math import ceil, prod
from typing import NamedTuple

from workbench.core.tensor import itemsize
from workbench.cost.tile_padding import blocks_volume, round_up
from workbench.hardware.hardware import Chip
from workbench.propagation.structure.operation_work import Convolution

SPLITS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32)
"""Into how many parts a sum is split: what NVIDIA's sample of cuBLASLt tries (`LtSgemmCustomFind`, `splitKSequenceA`), and none."""
_PARTIAL = 4  # bytes of a partial sum: float32
_LANE_BYTES = 8  # that a lane multiplies and adds in two operations: one of float32 counts as 2, two of float16 as 4
_ROUNDED = 1.05  # peaks are printed so
_ALIGNED = 16  # bytes of channels that a tensor core loads at once (NVIDIA, Convolutional Layers User's Guide, "Channels In And Out")
_WINDOW = (3, 3)
_SMALLEST_PICTURE = 8  # places along a side: a larger window is that of a kernel's gradient, which is a picture
_TILES = (2, 4)  # places along each side
_WINOGRAD_DTYPES = ("float32", "float16")
_WINOGRAD_LAUNCHES = 3  # two transforms before the dots, one behind


class BlockedDot(NamedTuple):
    """`batch` dots of rows x columns, each summed over as many products."""

    batch: int
    rows: int
    columns: int
    summed: float

    @property
    def results(self) -> int:
        return self.batch * self.rows * self.columns


@lru_cache(maxsize=1 << 14)
def product_seconds(dot: BlockedDot, dtype: str, chip: Chip) -> float:
    """Seconds of a dot, its sum split into as many parts as is fastest."""
    deep = chip.matmul_tile[2]
    return min(_split_seconds(dot, splits, dtype, chip) for splits in SPLITS if splits == 1 or dot.summed > (splits - 1) * deep)


def _split_seconds(dot: BlockedDot, splits: int, dtype: str, chip: Chip) -> float:
    volume = blocks_volume(*dot, chip.matmul_tile, splits, narrow=not has_tensor_cores(chip, dtype))
    seconds = 2 * volume / (chip.peak(dtype) * chip.efficiency_of("matmul"))
    if splits == 1:
        return seconds
    return seconds + 2 * splits * dot.results * _PARTIAL / _bandwidth(chip) + chip.launch


def convolution_seconds(convolution: Convolution, shape: tuple[int, ...], summed: float, dtype: str, chip: Chip) -> float:
    """Seconds of a convolution whose result on one device is of this shape, each element a sum of `summed` products."""
    features = shape[convolution.features]
    columns = max(features // convolution.groups, 1)
    lowered = BlockedDot(features // columns, prod(shape) // max(features, 1), columns, summed)
    if prod(convolution.window) <= prod(shape[dim] for dim in convolution.places):  # else the gradient of a kernel: a sum over pictures
        lowered = _align_channels(lowered, prod(convolution.window), dtype, chip)
    found = [product_seconds(lowered, dtype, chip)]
    if convolution.groups > 1:
        found.append(lowered.results * summed / (chip.vector_flops * chip.efficiency_of("vector")))
    if _allows_winograd(convolution, shape) and dtype in _WINOGRAD_DTYPES and not has_tensor_cores(chip, dtype):
        found += [_winograd_seconds(side, convolution, shape, summed, dtype, chip) for side in _TILES]
    return min(found)


def has_tensor_cores(chip: Chip, dtype: str) -> bool:
    """Whether dots in this dtype are faster than the lanes of the vector unit can be."""
    return chip.peak(dtype) > _ROUNDED * _LANE_BYTES / itemsize(dtype) * chip.vector_flops


def _align_channels(dot: BlockedDot, taps: int, dtype: str, chip: Chip) -> BlockedDot:
    """The dot with channels, for each tap, as tensor cores load them: three of a picture are eight in float16."""
    if not has_tensor_cores(chip, dtype) or dot.summed % taps:
        return dot
    return dot._replace(summed=taps * round_up(dot.summed / taps, max(int(_ALIGNED / itemsize(dtype)), 1)))


def _allows_winograd(convolution: Convolution, shape: tuple[int, ...]) -> bool:
    """Whether it is a plain one of 3 x 3, or the gradient of such a kernel, whose result is 3 x 3."""
    places = tuple(shape[dim] for dim in convolution.places)
    if convolution.window != _WINDOW and min(convolution.window, default=0) < _SMALLEST_PICTURE:
        return False
    return convolution.groups == 1 and convolution.is_plain and _WINDOW in (convolution.window, places)


def _winograd_seconds(side: int, convolution: Convolution, shape: tuple[int, ...], summed: float, dtype: str, chip: Chip) -> float:
    """Seconds of F(side x side, 3 x 3); the gradient of a kernel sums over the tiles in place of the channels."""
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
    """Bytes a second that kernels reach."""
    return chip.memory_bandwidth * chip.efficiency_of("memory")
