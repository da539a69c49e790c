"""What a plan's steps cost where its team runs them: the project's own price of a device, else the catalogue's."""

from collections.abc import Mapping
from functools import lru_cache

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.errors import HardwareError
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.team.store.tables import TeamHardware

STEPS = 1_000
"""Steps that a price is of."""
_HOUR = 3_600.0


def team_prices(session: DatabaseSession, project_id: str) -> dict[str, float]:
    """US dollars per device and hour in a project, by the name of the chip."""
    columns = (TeamHardware.hardware, TeamHardware.dollars_per_device_hour)
    priced = select(*columns).where(TeamHardware.project_id == project_id, TeamHardware.dollars_per_device_hour.is_not(None))
    found = ((known_hardware(text), price) for text, price in session.execute(priced))
    return {hardware.chip.name: price for hardware, price in found if hardware is not None and price is not None}


def dollars_of_steps(hardware_text: str, step_seconds: float, prices: Mapping[str, float]) -> float | None:
    """US dollars of `STEPS` steps on all devices of a plan's hardware; `None` where no price is known."""
    hardware = known_hardware(hardware_text)
    if hardware is None:
        return None
    own = prices.get(hardware.chip.name)
    hourly = hardware.hourly_price if own is None else own * hardware.size
    return None if hourly is None else hourly / _HOUR * step_seconds * STEPS


@lru_cache(maxsize=512)
def known_hardware(text: str) -> Hardware | None:
    """The hardware of a text, `None` for one that the catalogue here does not know."""
    try:
        return parse_hardware(text) if text else None
    except HardwareError:
        return None
