"""Edits of propagation: priorities, sharding groups, barriers. `edits` exports them."""

from dataclasses import dataclass

from workbench.core.layout_text import barrier_text, group_text
from workbench.errors import LayoutError, unknown_name
from workbench.plan.layout_legality import unknown_dim_error
from workbench.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Prioritize:
    """Set the propagation round of a dimension's rule (Shardy's user priority): batch, then Megatron, then ZeRO."""

    dim: str
    priority: int

    def apply(self, plan: Plan) -> Plan:
        dim = plan.program.present_dim(self.dim)
        if dim not in plan.program.dims:
            raise unknown_dim_error(plan.program, self.dim)
        return plan.updated(layout=plan.layout.with_priority(dim, self.priority))

    def __str__(self) -> str:
        return f"{self.dim} → p{self.priority}"


@dataclass(frozen=True, slots=True)
class GroupValues:
    """Give arguments and intermediate values (`@`) the same sharding (`shard_as`)."""

    places: tuple[str, ...]

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(layout=plan.layout.with_group(self.places))

    def __str__(self) -> str:
        return group_text(self.places)


@dataclass(frozen=True, slots=True)
class UngroupValues:
    """Remove a group."""

    places: tuple[str, ...]

    def apply(self, plan: Plan) -> Plan:
        if self.places not in plan.layout.groups:
            raise LayoutError(*unknown_name("group", group_text(self.places), map(group_text, plan.layout.groups)))
        return plan.updated(layout=plan.layout.without_group(self.places))

    def __str__(self) -> str:
        return f"no {group_text(self.places)}"


@dataclass(frozen=True, slots=True)
class SetBarrier:
    """Block propagation through a value, or allow only `forward` or `backward`; `None` removes the barrier."""

    place: str
    allows: str | None = "none"

    def apply(self, plan: Plan) -> Plan:
        return plan.updated(layout=plan.layout.with_barrier(self.place, self.allows))

    def __str__(self) -> str:
        return f"no {barrier_text(self.place, 'none')}" if self.allows is None else barrier_text(self.place, self.allows)
