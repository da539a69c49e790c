"""The result of XLA's SPMD partitioner for a plan: its actual collectives. The engine obtains it in milliseconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from workbench.core.sharding import base_axis
from workbench.reports.compiled import Scheduled

MOST_QUESTION_SECONDS = 2.0
"""Seconds after which a superseded request is cancelled; until then its result is useful for undo."""


@dataclass(frozen=True, slots=True)
class PartitionedCollective:
    """One collective of the partitioned program.

    - `axes`: its mesh axes, or parts of them (`y:(2)4`);
    - `payload`: bytes of the larger of operand and result on one device, per execution; `result`: bytes of the result;
    - `count`: executions per step, including loop trip counts;
    - `made_by`, `read_by`: the operations that make its operand and read its result, as positions in the traced
      program; -1 for an argument, a loop-carried value, or a result;
    - `frees_operand`: nothing else reads the operand.
    """

    kind: str
    axes: tuple[str, ...]
    payload: int
    result: int
    count: int
    made_by: int = -1
    read_by: int = -1
    frees_operand: bool = False

    @property
    def total_payload(self) -> int:
        return self.payload * self.count


@dataclass(frozen=True, slots=True)
class GatheredWhole:
    """An *involuntary full rematerialization* warning; `operation` is a position in the traced program, or -1."""

    operation: int
    shape: str
    before: str
    after: str


@dataclass(frozen=True)
class Partitioned:
    """XLA's partitioning of a plan.

    - `platform`: the compiler whose behavior it follows: `cpu`, `tpu`, `cuda`, or empty if none is chosen;
    - `devices`: of the mesh; `asked_devices`: of the smaller mesh used if XLA cannot have as many devices here;
    - `seconds`: time of the partitioner; `compiler`: name and version;
    - `scheduled`: the rest of the result if the hardware's own compiler was used.
    """

    platform: str
    devices: int
    compiler: str
    collectives: tuple[PartitionedCollective, ...]
    gathered_whole: tuple[GatheredWhole, ...] = ()
    seconds: float = 0.0
    asked_devices: int = 0
    scheduled: Scheduled | None = None

    @cached_property
    def by_axis_and_kind(self) -> Mapping[tuple[tuple[str, ...], str], int]:
        """Payload bytes per device and step by (mesh axes, kind)."""
        totals: dict[tuple[tuple[str, ...], str], int] = {}
        for collective in self.collectives:
            key = tuple(dict.fromkeys(map(base_axis, collective.axes))), collective.kind
            totals[key] = totals.get(key, 0) + collective.total_payload
        return totals
