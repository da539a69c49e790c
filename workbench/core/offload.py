"""What a training step keeps in the host's memory from step to step, and streams through the devices' memory when it is needed.

nothing             all state is in the devices' memory
optimizer_state     the optimiser's state, scalars aside, is the host's: the update fetches that of one parameter after the other and
                    puts it back (MaxText's `optimizer_memory_host_offload`); the devices compute it, unlike in ZeRO-Offload
"""

from dataclasses import dataclass

from workbench.errors import OffloadError

OPTIMIZER_STATE = "optimizer_state"
STREAMED = "optimizer/from_host"
"""The named scope of an update that streams its state from the host."""


@dataclass(frozen=True, slots=True)
class Offload:
    """What is the host's.

    >>> print(Offload.parse("optimizer_state"), Offload.parse(""), sep=", ")
    optimizer_state, nothing
    """

    optimizer_state: bool = False

    @classmethod
    def parse(cls, text: str) -> "Offload":
        """The inverse of `str`; an empty text is `nothing`. Raises `OffloadError`."""
        words = " ".join(text.split())
        if words not in ("", "nothing", OPTIMIZER_STATE):
            raise OffloadError(
                f"`{words[:80]}` cannot be kept in host memory; the choices are `{OPTIMIZER_STATE}`, or `nothing`.",
                [f"write `{OPTIMIZER_STATE}`", "offload activations by remat, `offload_dots_no_batch`"],
            )
        return cls(words == OPTIMIZER_STATE)

    def __str__(self) -> str:
        return OPTIMIZER_STATE if self.optimizer_state else "nothing"


ALL_ON_DEVICE = Offload()
