"""A collective of the step: payload, mesh axes and count."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

KINDS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute")


def collective_class(kind: str) -> str:
    """Return the class of a kind: `reduce` for all-reduce and reduce-scatter.

    Some compilers form no reduce-scatter but an all-reduce and a slice.
    """
    return "reduce" if kind in ("all-reduce", "reduce-scatter") else kind


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective of the step; bytes are per device.

    - `payload`: bytes of the larger of operand and result, per execution;
    - `sent`: bytes that leave each device per execution on a ring (all-reduce `2V(n-1)/n`, all-gather and
      reduce-scatter `V(n-1)/n`, all-to-all `V(n-1)/n`, permute `V`; V the payload);
    - `count`: executions per step, including loop trip counts;
    - `seconds`: per execution on the report's hardware; 0 without hardware.
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
    """Sum payload bytes per device and step by (mesh axes, kind)."""
    totals: dict[tuple[tuple[str, ...], str], int] = {}
    for collective in collectives:
        key = (collective.axes, collective.kind)
        totals[key] = totals.get(key, 0) + collective.total_payload
    return totals


def sent_bytes(kind: str, payload: int, devices: int) -> int:
    """Return the bytes that leave each device per execution on a ring of `devices` (scaling-book, "Sharded matrices")."""
    if kind == "collective-permute":
        return payload
    share = payload * (devices - 1) / devices
    return round(2 * share if kind == "all-reduce" else share)
