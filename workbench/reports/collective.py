"""A collective of the step: what is sent, over which mesh axes, how often."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

KINDS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute")


def collective_class(kind: str) -> str:
    """The class of a kind: `reduce` for all-reduce and reduce-scatter, as a compiler that forms none of the latter all-reduces and
    slices."""
    return "reduce" if kind in ("all-reduce", "reduce-scatter") else kind


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective of the step; bytes are those of one device.

    - `payload`: bytes of the larger of operand and result on one device, for one execution;
    - `sent`: bytes that leave each device for one execution on a ring (all-reduce `2V(n-1)/n`,
      all-gather and reduce-scatter `V(n-1)/n`, all-to-all `V(n-1)/n`, permute `V`; V the payload);
    - `count`: executions a step, loops multiplied by their trip counts;
    - `seconds`: of one execution on the hardware of the report, 0 without any.
    """

    kind: str
    axes: tuple[str, ...]
    payload: int
    sent: int
    count: int
    path: str
    source: str
    seconds: float = 0.0

    @property
    def total_payload(self) -> int:
        """Payload bytes per device and step."""
        return self.payload * self.count

    @property
    def total_sent(self) -> int:
        """Bytes that leave each device per step."""
        return self.sent * self.count


def payload_by_axis_and_kind(collectives: Iterable[Collective]) -> Mapping[tuple[tuple[str, ...], str], int]:
    """Payload bytes per device and step, for each set of mesh axes and each kind of collective."""
    totals: dict[tuple[tuple[str, ...], str], int] = {}
    for each in collectives:
        key = (each.axes, each.kind)
        totals[key] = totals.get(key, 0) + each.total_payload
    return totals


def sent_bytes(kind: str, payload: int, devices: int) -> int:
    """Bytes that leave each device on a ring of `devices`, for one execution (scaling-book, "Sharded matrices")."""
    if kind == "collective-permute":
        return payload
    share = payload * (devices - 1) / devices
    return round(2 * share if kind == "all-reduce" else share)
