"""`workbench fleet`: train many models at once, or simulate that from units timed here."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.errors import FleetError
from workbench.multimodel import ALL_POLICIES, Schedule, policy_named
from workbench.multimodel import simulate as simulated
from workbench.multimodel.fleet import Fleet
from workbench.multimodel.measured import FleetTimes
from workbench.units import format_seconds, parse_bytes


def run(options: argparse.Namespace) -> None:
    """In a worker process; Ctrl-C ends it, and with a folder the next run goes on from there."""
    from workbench.documents import fleet_record
    from workbench.engine import run_fleet
    from workbench.fleet_text import measurement_text

    changes = {} if options.policy is None else {"policy": options.policy}
    fleet = _fleet(options).updated(**changes)
    measured = run_fleet(fleet, on_progress=_Progress())
    print(json.dumps(fleet_record(measured), indent=1) if options.json else measurement_text(measured))


def simulate(options: argparse.Namespace) -> None:
    """Policies are those asked for, else the file's."""
    from workbench.documents import simulation_record
    from workbench.engine import measure_units
    from workbench.fleet_text import simulation_text

    fleet = _fleet(options)
    wanted = options.policy or fleet.policy
    if wanted not in ("all", "exact"):
        policy_named(wanted)  # before anything is compiled
    devices = fleet.devices or min(len(fleet.models), 8)
    times = measure_units(fleet, on_progress=_Progress())
    schedules = _schedules(times, devices, fleet, wanted)
    print(
        json.dumps(simulation_record(times, devices, schedules), indent=1) if options.json else simulation_text(times, devices, schedules)
    )


def _schedules(times: FleetTimes, devices: int, fleet: Fleet, wanted: str) -> dict[str, Schedule]:
    if wanted == "exact":
        from workbench.multimodel.exact import optimum

        found = optimum(times.jobs, devices)
        own = simulated(times.jobs, devices, policy_named(fleet.policy), double_buffer=fleet.double_buffer)
        return {fleet.policy: own, f"exact ({'proven' if found.proven else 'not proven'}, no transfers)": found.schedule}
    policies = ALL_POLICIES if wanted == "all" else (policy_named(wanted),)
    return {each.name: simulated(times.jobs, devices, each, double_buffer=fleet.double_buffer) for each in policies}


def _fleet(options: argparse.Namespace) -> Fleet:
    """The file's fleet, with what the command line says otherwise."""
    from workbench.documents import load_fleet
    from workbench.tracing.platform import leave_accelerators_alone

    leave_accelerators_alone()
    fleet = load_fleet(options.file)
    changes: dict[str, Any] = {} if options.devices is None else {"devices": options.devices}
    if options.memory is not None:
        changes["memory"] = parse_bytes(options.memory)
        if changes["memory"] is None:
            raise FleetError(f'"{options.memory}" is no amount of memory.', ['write "2 GiB", "512 MiB" or a number of bytes'])
    if getattr(options, "folder", None):
        changes["folder"] = Path(options.folder).absolute()
    return fleet.updated(**changes)


class _Progress:
    """A line a stage, a line a tenth of all units, and one for each model that is done; on standard error."""

    def __init__(self) -> None:
        self._stage, self._units, self._of = "", 0, 0
        self._losses: dict[str, float] = {}

    def __call__(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "progress" and event["stage"] != self._stage:
            self._stage = event["stage"]
            self._say(f"{self._stage} ...")
        elif event["event"] == "schedule":
            self._of = len(event["predicted"])
            self._say(f"{self._of:,} units, at least {format_seconds(event['bound'])} on {event['devices']} devices")
        elif event["event"] == "unit":
            self._unit(event)

    def _unit(self, event: Mapping[str, Any]) -> None:
        self._units += 1
        if event["loss"] is not None:
            self._losses[event["model"]] = event["loss"]
        if event["done"] == event["of"]:
            self._say(f"`{event['model']}` is done, loss {self._losses.get(event['model'], float('nan')):.4f}")
        elif self._units % max(1, self._of // 10) == 0:
            self._say(f"unit {self._units:,} of {self._of:,}")

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
