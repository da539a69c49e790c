"""The causes of a difference between what a plan sends and what its compiled program does: a name and a sentence each."""

from typing import NamedTuple


class Cause(NamedTuple):
    """A named compiler transformation, and what it means."""

    name: str
    text: str


COMBINED = Cause("combined", "the compiler sends several arrays in one collective: fewer latencies, the same bytes")
WINDOWED = Cause("windowed einsum", "the compiler sends shards around a ring and multiplies each as it arrives: communication hides")
WIDENED = Cause("widened", "this compiler reduces 2-byte floats as 4-byte ones: twice the bytes")
PADDED = Cause("padded", "the compiler pads what it reduces and scatters, and shifts the slices into place afterwards: somewhat more bytes")
GATHERED_AGAIN = Cause("gathered again", "the compiler gathers a second time what it would have to keep for long: more bytes, less memory")
KEPT = Cause("kept", "the compiler keeps for the second use what the plan sends twice")
HOISTED = Cause("moved out of a loop", "the compiler found that each turn of the loop sends the same, and sends it once")
FOLDED = Cause("folded", "the compiler reduces over all axes at once what the plan reduces over one after the other")
SPLIT = Cause("reduced axis by axis", "the compiler reduces over one axis after the other what the plan reduces at once")
BORDERS = Cause("borders", "each device fetches what a shift, window or pad needs around its own slice, in another way than planned")
REWRITTEN = Cause("rewritten first", "this compiler makes other operations of this one before it partitions them, and those send otherwise")
NARROWED = Cause("narrowed", "this compiler rounds to 2-byte floats before it sends, as the product that reads them would")
LOOKED_UP = Cause("looked up otherwise", "the compiler lets each device look up, or add, some of the rows and sends those, in another way")
NOT_PARTITIONED = Cause("not partitioned", "the compiler has no partitioned form of this operation, and gathers its operand")
OTHERWISE = Cause("resharded otherwise", "the compiler takes another way between the same two shardings")
TOO_FINE = Cause(
    "cut too fine", "a dimension has fewer elements than devices: the compiler shrinks it, and finds most of what is sent empty"
)
NOT_SENT = Cause("not sent", "the compiler found this value already there, or not needed")
UNEXPLAINED = Cause("unexplained", "no cause that the workbench knows; tell us")

ALL_CAUSES = (
    *(COMBINED, WINDOWED, WIDENED, PADDED, GATHERED_AGAIN, KEPT, HOISTED, FOLDED, SPLIT),
    *(BORDERS, REWRITTEN, NARROWED, LOOKED_UP, NOT_PARTITIONED, OTHERWISE, TOO_FINE, NOT_SENT, UNEXPLAINED),
)
