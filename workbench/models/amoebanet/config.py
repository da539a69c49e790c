"""The sizes of AmoebaNet-D, those that GPipe published, and the two cells that evolution found."""

from dataclasses import dataclass

NORMAL = (
    (1, "conv_1x1"),
    (1, "max_3x3"),
    (1, "none"),
    (0, "conv_1x7_7x1"),
    (0, "conv_1x1"),
    (0, "conv_1x7_7x1"),
    (2, "max_3x3"),
    (2, "none"),
    (1, "average_3x3"),
    (5, "conv_1x1"),
)
"""Of the normal cell, two by two: which state an operation reads, and what it does to it; the sum of two is the next state. States 0 and 1
are what the two cells before gave on. Real et al. 2019 (arXiv:1802.01548), as the TPU models and torchgpipe's benchmarks implement it."""

REDUCTION = (
    (0, "max_2x2"),
    (0, "max_3x3"),
    (2, "none"),
    (1, "conv_3x3"),
    (2, "conv_1x7_7x1"),
    (2, "max_3x3"),
    (3, "none"),
    (1, "max_2x2"),
    (2, "average_3x3"),
    (3, "conv_1x1"),
)
"""Of the cell that halves height and width: operations on states 0 and 1 take every second place."""

JOINED = {False: (0, 3, 4, 6), True: (4, 5, 6)}
"""The states that a cell gives on side by side, of the normal cell and of the one that reduces. The paper joins 4, 5 and 6 in both; the TPU
models join 0, 3, 4 and 6, and GPipe's parameters are counted so."""


@dataclass(frozen=True, slots=True)
class AmoebaNetConfig:
    """One AmoebaNet-D and how it is trained.

    - `cells`: L, the normal cells, in three groups of as many; a cell that reduces comes before the second and the third;
    - `filters`: D, four times the width that the stem begins with; every reduction doubles the width;
    - `size` of images along height and width: the network halves it five times.
    """

    cells: int
    filters: int
    image_channels: int
    classes: int
    size: int
    batch: int
    learning_rate: float = 1e-3


def _imagenet(cells: int, filters: int) -> AmoebaNetConfig:
    """Huang et al. 2019 (GPipe), table 1: 224 x 224, batch 128. torchgpipe counts the same parameters in its own."""
    return AmoebaNetConfig(cells, filters, image_channels=3, classes=1000, size=224, batch=128)


PRESETS: dict[str, AmoebaNetConfig] = {
    # For virtual devices: three cells, one at each size, the last of a single pixel.
    "tiny": AmoebaNetConfig(cells=3, filters=16, image_channels=3, classes=10, size=32, batch=8),
    # Table 2 of GPipe is of 18-256, table 1 of the others: 82M, 318M, 542M, 1.05B and 1.8B parameters there.
    "gpipe-18-208": _imagenet(18, 208),
    "gpipe-18-256": _imagenet(18, 256),
    "gpipe-18-416": _imagenet(18, 416),
    "gpipe-18-544": _imagenet(18, 544),
    "gpipe-36-544": _imagenet(36, 544),
    "gpipe-72-512": _imagenet(72, 512),
}
