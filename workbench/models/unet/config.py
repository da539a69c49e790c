"""The sizes of the 3-D U-Net, and the published ones."""

from dataclasses import dataclass

from workbench.models.config_fields import FLOATS, one_of, verify_relation, verify_words, word_or_none


@dataclass(frozen=True, slots=True)
class UNetConfig:
    """One 3-D U-Net and how it is trained.

    - `size` of the volume along depth, height and width: 2 to the number of levels less one must divide it;
    - `channels` that each level gives on, from the finest, and `narrow` those between the two convolutions of the way down;
    - `pool`: levels are halved by the `max` of two, or by the `stride` of their first convolution;
    - `widen`: the way up doubles the size and keeps the channels, and leaves it to the convolutions to reduce them; else it reduces them
      itself;
    - `norm`: `batch` or `instance`; `scale`: a normalisation has a factor, besides its bias; `biases` of the way up and of the head;
    - `compute`: the type of activations; `None` is that of the parameters.
    """

    channels: tuple[int, ...]
    narrow: tuple[int, ...]
    image_channels: int
    classes: int
    size: int
    batch: int
    pool: str = one_of("max", "stride")
    widen: bool = False
    norm: str = one_of("batch", "instance")
    scale: bool = True
    up_bias: bool = False
    compute: str | None = word_or_none(*FLOATS)
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        verify_words(self)
        verify_relation(
            len(self.channels) == len(self.narrow),
            f"`channels` are of {len(self.channels)} levels and `narrow` of {len(self.narrow)}; each level has one of both.",
            "give as many of both",
        )


PRESETS: dict[str, UNetConfig] = {
    # For eight virtual devices, small enough to run; the coarsest level has 4 places along each dimension.
    "tiny": UNetConfig(channels=(8, 16, 32), narrow=(8, 16, 32), image_channels=1, classes=4, size=16, batch=8),
    # Cicek et al. 2016 (arXiv:1606.06650), figure 2: 19,069,955 parameters, three image channels, three classes. Its convolutions are not
    # padded, and take 132 x 132 x 116; here they are, as halves and halos are then the same for every part, and take 128 cubed.
    "cicek-2016": UNetConfig(
        channels=(64, 128, 256, 512),
        narrow=(32, 64, 128, 256),
        image_channels=3,
        classes=3,
        size=128,
        batch=8,
        widen=True,
        scale=False,
    ),
    # Mesh-TensorFlow's `experimental/unet.py`, for CT of the liver and its lesions: the defaults of its flags.
    "mesh-tensorflow": UNetConfig(
        channels=(32, 64, 128, 256),
        narrow=(32, 64, 128, 256),
        image_channels=1,
        classes=3,
        size=128,
        batch=32,
        up_bias=True,
        compute="bfloat16",
    ),
    # MLPerf Training's `image_segmentation/pytorch` for CT of kidneys: five halvings by stride, instance normalisation, a batch of 2.
    "mlperf-kits19": UNetConfig(
        channels=(32, 64, 128, 256, 320, 320),
        narrow=(32, 64, 128, 256, 320, 320),
        image_channels=1,
        classes=3,
        size=128,
        batch=2,
        pool="stride",
        norm="instance",
        up_bias=True,
        compute="bfloat16",
    ),
}
