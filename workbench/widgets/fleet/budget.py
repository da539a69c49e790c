"""The memory budget of each device, as the user types it or doubles and halves it."""

from workbench.errors import FleetError
from workbench.multimodel.fleet import Fleet
from workbench.multimodel.fleet_forecast import FleetForecast
from workbench.units import parse_bytes


def budget_of(typed: str) -> int | None:
    """The budget in a user's text; empty is all that a device has. Raises `FleetError`."""
    if not typed.strip():
        return None
    if (found := parse_bytes(typed)) is None:
        raise FleetError(f'"{typed}" is no amount of memory.', ['write "2 GiB", "512 MiB" or a number of bytes', "leave it empty for all"])
    return found


def next_budget(fleet: Fleet, seen: FleetForecast | None, way: str) -> int:
    """Half or twice the budget, `more`; without one, all of the largest model."""
    whole = max((each.bytes for each in seen.models), default=1) if seen else 1 << 20
    if fleet.memory is None:
        return whole
    return max(1, fleet.memory * 2 if way == "more" else fleet.memory // 2)
