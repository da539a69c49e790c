"""Jobs of a team that are small real processes, people who submit them, and a server's dispatcher in the process of the test."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from sqlalchemy import select

from tests.support.team_server import new_store
from workbench.team.jobs.dispatcher import Dispatcher
from workbench.team.jobs.job_spec import JobSpec
from workbench.team.store.store import Store
from workbench.team.store.tables import Project, StoredJob, StoredPlan, User

PEOPLE = ("ada", "bob", "cyd", "dan", "eve")
PATIENCE = 60.0  # seconds for what takes a fraction of one
DIGEST = sha256(b"plan").hexdigest()

SCRIPT = """
n=0
say() { n=$((n + 1)); printf '{"seq": %d, "time": 1.0, "kind": %s}\\n' "$n" "$1" >> "$0"; }
trap 'say "\\"cancelled\\""; exit 143' TERM
say '"started", "process": 0, "processes": 1, "command": "run", "plan": "tiny", "version": "0"'
for step in $(seq "$1"); do
  sleep "$2" & wait $!
  say '"progress", "stage": "running", "fraction": null, "step": '$step', "of": '$1', "loss": 0.5, "seconds": 0.01'
done
say '"measured", "figures": {"median_seconds": 0.01, "compiled_peak": 100, "losses": [0.5]}'
say '"done", "seconds": 0.1'
"""
"""What a run does as others see it, in a shell, which starts in a millisecond: the events of its steps, each after a while."""


def tiny_command(spec: JobSpec, folder: Path, python: str | None = None, pause: str = "0.01") -> list[str]:
    return ["/bin/sh", "-c", SCRIPT, str(folder / "events.jsonl"), str(spec.steps), spec.options.get("pause", pause)]


def job_store(folder: Path, store: Store | None = None) -> Store:
    """A store with five people, two projects and a plan."""
    store = store or new_store(folder)
    with store.write() as session:
        session.add_all(User(id=each, name=each, display=each.title(), email=None, created=0.0) for each in PEOPLE)
        session.add_all(Project(id=each, slug=each, name=each, created=0.0) for each in ("alpha", "beta"))
        session.flush()
        session.add(StoredPlan(digest=DIGEST, document="{}", target="mlp", mesh="data:1", devices=1, dims=[], created=0.0))
    return store


def tiny_spec(**options: object) -> JobSpec:
    return JobSpec(**{"plan": DIGEST, "steps": 1, **options})


@contextmanager
def dispatching(dispatcher: Dispatcher) -> Iterator[Dispatcher]:
    dispatcher.start()
    try:
        yield dispatcher
    finally:
        dispatcher.stop()


def job_of(store: Store, job_id: str) -> StoredJob:
    with store.read() as session:
        return session.get_one(StoredJob, job_id)


def states_of(store: Store) -> dict[str, str]:
    with store.read() as session:
        return {row.id: row.state for row in session.execute(select(StoredJob.id, StoredJob.state))}


def wait_until(is_so: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Until it is so; fails after a time that is no measure of anything."""
    deadline = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


class Heard:
    """A listener that keeps what it hears, and lets others wait for it."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.calls: list[tuple[str, tuple, str]] = []
        self._news = threading.Condition()
        dispatcher.listen(self._hear)

    def _hear(self, job_id, events, state) -> None:
        with self._news:
            self.calls.append((job_id, tuple(events), state))
            self._news.notify_all()

    def wait_for(self, is_so: Callable[["Heard"], bool]) -> None:
        with self._news:
            assert self._news.wait_for(lambda: is_so(self), PATIENCE), self.calls

    def states(self, job_id: str) -> list[str]:
        return [state for each, _, state in self.calls if each == job_id]

    def kinds(self, job_id: str) -> list[str]:
        return [event.kind for each, events, _ in self.calls if each == job_id for event in events]


def in_a_process(code: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """A server, or a part of one, that can be killed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment)
