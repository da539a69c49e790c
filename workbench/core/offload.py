"""Define which training state is kept in host memory and streamed to the devices when needed.

- `nothing`: all state is in device memory.
- `optimizer_state`: the host holds the optimizer state except scalars; the update fetches and writes back one parameter
  after the other (MaxText's `optimizer_memory_host_offload`). The devices compute the update, unlike in ZeRO-Offload.
"""

from dataclasses import dataclass

from workbench.errors import OffloadError

OPTIMIZER_STATE = "optimizer_state"
STREAMED = "optimizer/from_host"
"""Named scope of an update that streams its state from the host."""


@dataclass(frozen=True, slots=True)
class Offload:
    """State kept in host memory.

    >>> print(Offload.parse("optimizer_state"), Offload.parse(""), sep=", ")
    optimizer_state, nothing
    """

    optimizer_state: bool = False

    @classmethod
    def parse(cls, text: str) -> "Offload":
        """Parse the text form; empty text means `nothing`. Raises `OffloadError`."""
        words = " ".join(text.split())
        if words not in ("", "nothing", OPTIMIZER_STATE):
            raise OffloadError(
                f"`{words[:80]}` cannot be kept in host memory; choose `{OPTIMIZER_STATE}` or `nothing`.",
                [f"write `{OPTIMIZER_STATE}`", "offload activations by remat, `offload_dots_no_batch`"],
            )
        return cls(words == OPTIMIZER_STATE)

    def __str__(self) -> str:
        return OPTIMIZER_STATE if self.optimizer_state else "nothing"


ALL_ON_DEVICE = Offload()
