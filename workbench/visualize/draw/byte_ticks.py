"""Round values of a scale of bytes."""

from workbench.visualize.draw.axis_scale import AxisScale


def byte_ticks(scale: AxisScale) -> tuple[float, ...]:
    """Round values in the unit that the greatest of the scale is written in.

    >>> byte_ticks(AxisScale(0.0, 1023.0, 0, 100))[:3], byte_ticks(AxisScale(0.0, 2048.0, 0, 100))[:3]
    ((0.0, 200.0, 400.0), (0.0, 512.0, 1024.0))
    """
    return scale.ticks(base=2, unit=1024.0 ** max((int(scale.high).bit_length() - 1) // 10, 0))
