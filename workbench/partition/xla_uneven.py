"""Dimensions that their parts do not fill, on the way from one number of parts to another: what XLA sends there beside the plain move.

XLA pads behind the last element, each tiling for itself. Where the slices of the two begin at different places, parts fetch from others
what they lack before they are gathered, or sliced (`TileToPartialReplicateHaloExchange`, `PadFromPartialReplicateShape`; openxla/xla,
`spmd_partitioner_util.cc`):

    6 over 4 parts     0 1 | 2 3 | 4 5 | . .
    6 over 2           0 1 2 | 3 4 5          part 2 gathers with part 3, and has no 3: it comes from part 1, and 5 goes to part 3

And a dimension of so few elements that most of what is gathered would be padding is not gathered: each device puts its part where it
belongs among zeros, and those are summed (`ReplicatePartial`, `spmd_partitioner.cc`).
"""

from enum import Enum

from workbench.partition.halo import Piece, compact


class Joining(Enum):
    """How parts become one."""

    BROADCAST = "the first part is all there is: it is summed with zeros, before all others"
    GATHER = "all-gather"
    SUM = "at most half as many elements as parts: the whole dimension is summed, after all others"


def joining(size: int, parts: int, target: int) -> Joining:
    """How a dimension that is cut into `parts` comes to be cut into `target`."""
    part, joined = -(-size // parts), -(-size // target)
    if part == joined:
        return Joining.BROADCAST
    return Joining.SUM if joined <= parts // target // 2 else Joining.GATHER


def before_joining(size: int, parts: int, target: int) -> tuple[Piece, ...]:
    """What parts of a dimension fetch, before groups of them are joined to `target` parts.

    >>> before_joining(6, 4, 2)
    (Piece(size=1, pairs=((1, 2), (2, 3))),)
    """
    part, joined, group = -(-size // parts), -(-size // target), parts // target
    excess = part * group - joined
    if target == 1 or excess <= 0:
        return ()
    left = [excess * (number // group) for number in range(parts)]
    return compact(part, left, [-each for each in left], size)


def before_slicing(size: int, parts: int, target: int) -> tuple[Piece, ...]:
    """What parts of a dimension fetch, before each is sliced into several, `target` in all.

    >>> before_slicing(6, 2, 4)
    (Piece(size=1, pairs=((1, 0),)),)
    """
    part, wanted = -(-size // parts), -(-size // target) * (target // parts)
    lack = wanted - part
    if parts == 1 or lack <= 0:
        return ()
    return compact(part, [-lack * number for number in range(parts)], [lack * (number + 1) for number in range(parts)], size)
