"""The sizes of torchgpipe's U-Net for pictures, (B, C) as its benchmarks call them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeepUNetConfig:
    """One U-Net of `levels` and how it is trained.

    - `convolutions`: B, in a level on its way down, in one on its way up, and at the bottom;
    - `channels`: C, that the finest level gives on; each level below has twice those of the one above;
    - `size` of pictures along height and width: 2 to the number of levels must divide it.
    """

    convolutions: int
    channels: int
    levels: int
    image_channels: int
    size: int
    batch: int
    learning_rate: float = 0.1


def _memory(convolutions: int, channels: int) -> DeepUNetConfig:
    """torchgpipe's `benchmarks/unet-memory`: 32 pictures of 192 x 192, five levels, SGD."""
    return DeepUNetConfig(convolutions, channels, levels=5, image_channels=3, size=192, batch=32)


PRESETS: dict[str, DeepUNetConfig] = {
    "tiny": DeepUNetConfig(convolutions=2, channels=4, levels=2, image_channels=3, size=16, batch=8),
    # 362.2M, 2.21B, 4.99B, 7.80B and 15.82B parameters (torchgpipe's table of memory), on 1, 1, 2, 4 and 8 devices.
    "torchgpipe-6-72": _memory(6, 72),
    "torchgpipe-11-128": _memory(11, 128),
    "torchgpipe-24-128": _memory(24, 128),
    "torchgpipe-24-160": _memory(24, 160),
    "torchgpipe-48-160": _memory(48, 160),
}
