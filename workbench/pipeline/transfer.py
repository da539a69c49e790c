"""How long the bytes between two stages take, and whether the devices work meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transfer:
    """`seconds` of a number of bytes from one stage to another; without `overlapped` the sender does nothing else meanwhile.

    One transfer after the other goes over the link from one device to another; different links, and both directions, do not share.
    """

    seconds: Callable[[int], float]
    overlapped: bool = True

    @classmethod
    def at(cls, bandwidth: float, latency: float = 0.0, *, overlapped: bool = True) -> "Transfer":
        """Of a link of so many bytes a second.

        >>> Transfer.at(100.0, latency=0.5).seconds(200)
        2.5
        """
        return cls(lambda count: latency + count / bandwidth, overlapped)


FREE_TRANSFER = Transfer(lambda _: 0.0)
