"""Models and devices that join or leave a run under way, and device memory reserved for timing a new model."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from workbench.engine.fleet.device_and_host_arrays import FleetDevice
from workbench.engine.fleet.model_run import ModelRun, find_run
from workbench.engine.fleet.unit_scheduler import UnitScheduler
from workbench.errors import FleetError


class Membership:
    """Adds and removes models and devices of one run; callable from any thread. `start` starts a device in a thread of its own."""

    def __init__(self, scheduler: UnitScheduler, devices: Sequence[FleetDevice], start: Callable[[FleetDevice], None]) -> None:
        self._scheduler, self._devices, self._start = scheduler, devices, start

    def add(self, model_run: ModelRun) -> None:
        """Add one more model; raises `FleetError` once all others are done."""
        scheduler = self._scheduler
        with scheduler.changed:
            self.verify_goes_on(model_run.model.name)
            scheduler.model_runs.append(model_run)
            if scheduler.began:
                model_run.arrival_time = time.perf_counter() - scheduler.began
                for device in self._devices:
                    if device.available:  # it may just have found that no work was left
                        self._start(device)
            scheduler.changed.notify_all()

    def verify_goes_on(self, newcomer: str) -> None:
        """Raises `FleetError` for a model that arrives once all others are done."""
        if self._scheduler.ended:
            raise FleetError(f"Model `{newcomer}` was added too late: the run has ended.", ["train it in a separate run"])

    def stop(self, name: str) -> None:
        """End the model after its current mini-batch, which frees devices for the others."""
        with self._scheduler.changed:
            self._scheduler.end(find_run(self._scheduler.model_runs, name))

    def progress_of(self, name: str) -> Mapping[str, int]:
        """Units that a model has done, and how many it will have at its end."""
        return self._scheduler.progress_of(find_run(self._scheduler.model_runs, name))

    @contextmanager
    def room(self, number: int, count: int) -> Iterator[None]:
        """Reserve `count` bytes of a device for something else than its units, before its next unit: as soon as they are free."""
        device, scheduler = self._device(number), self._scheduler
        with scheduler.changed:
            device.reserved += 1
            try:
                while not device.fits(count) and device.used_bytes and scheduler.failure is None:
                    scheduler.changed.wait()
            finally:
                device.reserved -= 1
                scheduler.changed.notify_all()
            device.claim(count, "What is timed")
        try:
            yield
        finally:
            with scheduler.changed:
                device.release(count)
                scheduler.changed.notify_all()

    def leave(self, number: int) -> None:
        """Give the device no further unit."""
        device = self._device(number)
        with self._scheduler.changed:
            device.available = False
            self._scheduler.changed.notify_all()

    def come_back(self, number: int) -> None:
        """Give the device units again."""
        device = self._device(number)
        with self._scheduler.changed:
            if not device.available:
                device.available = True
                self._start(device)

    def _device(self, number: object) -> FleetDevice:
        """The device with this number."""
        if type(number) is not int or not 0 <= number < len(self._devices):
            raise FleetError(f"There is no device {number!r} in this run.", [f"they are the numbers 0 to {len(self._devices) - 1}"])
        return self._devices[number]
