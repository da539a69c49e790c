"""What XLA's SPMD partitioner makes of a plan: the collectives that will really be sent. The engine gets it, in milliseconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from workbench.core.sharding import base_axis
from workbench.reports.compiled import Scheduled


@dataclass(frozen=True, slots=True)
class PartitionedCollective:
    """One collective of the partitioned program.

    - `axes`: mesh axes it runs over, or parts of them (`y:(2)4`);
    - `payload`: bytes of the larger of operand and result on one device, for one execution; `result`: bytes of the result;
    - `count`: executions a step, loops multiplied by their trip counts;
    - `made_by`, `read_by`: the operations that make its operand and read its result, as positions in the program as traced; -1 for an
      argument, a value that a loop carries, or a result;
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
        """Payload bytes per device and step."""
        return self.payload * self.count


@dataclass(frozen=True, slots=True)
class GatheredWhole:
    """An *involuntary full rematerialization* that the partitioner warned of: it could reshard a value only by gathering it whole.
    `operation` is a position in the program as traced, -1 if it is not known; the rest as XLA writes it."""

    operation: int
    shape: str
    before: str
    after: str


@dataclass(frozen=True)
class Partitioned:
    """XLA's answer to a plan.

    - `platform`: whose compiler's behaviour it follows: `cpu`, `tpu`, `cuda`, or empty where none is chosen;
    - `devices` of the mesh; `asked_devices`: of the smaller mesh that was partitioned for, where XLA cannot have as many devices here;
    - `seconds` that the partitioner took; `compiler`: name and version;
    - `scheduled`: where the hardware's own compiler answered, the rest of its answer.
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
        """Payload bytes per device and step, for each set of mesh axes and each kind of collective."""
        totals: dict[tuple[tuple[str, ...], str], int] = {}
        for each in self.collectives:
            key = tuple(dict.fromkeys(map(base_axis, each.axes))), each.kind
            totals[key] = totals.get(key, 0) + each.total_payload
        return totals
