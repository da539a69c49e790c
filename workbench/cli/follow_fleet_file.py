"""Follow a fleet file that changes while its models train: a model that is added to it joins the run, one that is removed stops."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from workbench.documents import load_fleet
from workbench.engine import add_model_command
from workbench.errors import WorkbenchError
from workbench.multimodel.fleet import Fleet
from workbench.multimodel.training_commands import FleetCommand, StopModel

EVERY = 0.5  # seconds


class AcceptsCommands(Protocol):
    def send(self, command: FleetCommand) -> None: ...


@dataclass
class Follower:
    """Reads the file again and again. A file that cannot be read, as while it is edited, is reported once and changes nothing."""

    path: Path
    fleet: Fleet
    training: AcceptsCommands
    say: Callable[[str], None]
    allow: tuple[str, ...] = ()
    _seen: float = field(init=False)
    _names: set[str] = field(init=False)
    _over: threading.Event = field(init=False, default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._seen = self._changed_at()
        self._names = {each.name for each in self.fleet.models}
        threading.Thread(target=self._follow, daemon=True).start()

    def end(self) -> None:
        self._over.set()

    def _follow(self) -> None:
        while not self._over.wait(EVERY):
            if (now := self._changed_at()) != self._seen:
                self._seen = now
                try:
                    self._apply(load_fleet(self.path, self.allow))
                except WorkbenchError as error:
                    self.say(str(error))

    def _changed_at(self) -> float:
        try:
            return self.path.stat().st_mtime
        except OSError:
            return self._seen

    def _apply(self, fleet: Fleet) -> None:
        """Apply changes of models; other changes wait for the next run."""
        models = {each.name: each for each in fleet.models}
        for name in [each for each in models if each not in self._names]:
            self.training.send(add_model_command(models[name]))
        for name in sorted(self._names - models.keys()):
            self.training.send(StopModel(name))
        self._names = set(models)
