"""The warm process that asks XLA's partitioner, killed again and again while a session is edited.

Every round makes one to three edits, and then, at a random moment, ends the process by SIGKILL or SIGABRT, as a lack of memory and a failed
check of XLA do. `lost` counts edits that are not in the history, `wrong` figures that settled to another answer than an undisturbed process
gave, `silent` plans that neither settled nor said why within a minute, `left` processes that are still there at the end. All must be 0.
`told` is how often the figures stayed planned and said that the process had ended; `settled` how often they came right all the same.
`cancel_ms` is the longest time from giving up a question that is under way until whoever waits hears of it; the goal is 200.

    python benchmarks/partitioner_kills.py [--quick] [--json] [--seed N]
"""

import argparse
import json
import os
import queue
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.engine import WarmWorker
from workbench.hardware.hardware import Hardware
from workbench.models import build
from workbench.plan.edits import ShardDim
from workbench.public_plan import Plan
from workbench.reports.partitioned import Partitioned, PartitionedCollective
from workbench.session.figure_tiers import Settler
from workbench.session.plan_history import Session

EDITS = tuple(ShardDim(dim, axes) for dim in ("d_ff", "heads", "vocab") for axes in (("model",), ()))
LIMIT = 60.0  # seconds for a plan to settle or to say why not
CANCELS = 20
MOMENTS = (0.0, 0.02, 0.1, 0.3, 1.0)  # seconds after the edits at which the process is ended; the last ones find it starting, or at rest


class Asking:
    """Asks the worker itself: what is on disk would hide a process that is gone."""

    def __init__(self, worker: WarmWorker) -> None:
        self.worker = worker

    def ask(self, plan: Plan, _hardware: Hardware | None) -> Future[Partitioned]:
        return self.worker.ask(plan)

    def cancel(self, answer: Future[Partitioned]) -> None:
        self.worker.cancel(answer)


class Rounds:
    """A session on a loop of its own, and what became of its plans."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - moments of kills are no secret
        self.session = Session(Plan(build("gpt", layers=2), "data:4 model:2", "batch:data"))
        self.worker, self.pids = WarmWorker(), set[int]()
        self.loop: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.answers: dict[str, tuple[PartitionedCollective, ...]] = {}
        self.settler = Settler(self.session, Asking(self.worker), defer=self.loop.put)
        self.found = dict.fromkeys(("kills", "settled", "told", "wrong", "silent", "lost", "left"), 0)
        self.made = 0

    def run(self, kills: int) -> dict[str, int]:
        """So many rounds; what was found."""
        begun = {pid for pid in processes() if pid != os.getpid()}
        for number in range(kills):
            self._edit()
            self._turn(lambda: False, self.chance.choice(MOMENTS))
            self._kill((signal.SIGKILL, signal.SIGABRT)[number % 2])
            self._judge(is_disturbed=True)
            if self.settler.settling_state.reason:  # whoever goes on finds another process
                self._edit()
                self._judge(is_disturbed=False)
        self.settler.close()
        self.worker.close()
        self._verify_answers()
        self.found["lost"] = self.made - len(self.session.edits)
        self.found["left"] = len(set(processes()) & (self.pids - begun))
        return self.found

    def _edit(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            edit = self.chance.choice([each for each in EDITS if self.session.plan.layout.rule(each.dim) != each.axes])
            self.session.apply(edit)
            self.made += 1
            self._turn(lambda: False, self.chance.random() * 0.05)

    def _kill(self, number: signal.Signals) -> None:
        """Whatever the process is at: an answer, its start, or nothing."""
        self._turn(lambda: self.worker.pid is not None, LIMIT)
        pid = self.worker.pid
        if pid is not None:
            self.pids.add(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            self.found["kills"] += 1

    def _judge(self, *, is_disturbed: bool) -> None:
        """What a plan says once it has come to rest. One that nobody disturbed must settle."""
        self._turn(lambda: not self.settler.settling_state.is_settling, LIMIT)
        standing, report = self.settler.settling_state, self.session.report
        if report.partitioned is not None:
            self.found["settled"] += 1
            known = self.answers.setdefault(str(report.plan.layout), report.partitioned.collectives)
            self.found["wrong"] += known != report.partitioned.collectives
        elif is_disturbed and "XLA's partitioner ended" in standing.reason:
            self.found["told"] += 1
        else:
            self.found["silent"] += 1

    def _turn(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Do what is due on the loop until something is so, for so many seconds at most."""
        end = time.monotonic() + seconds
        while not is_so() and (left := end - time.monotonic()) > 0:
            with suppress(queue.Empty):
                self.loop.get(timeout=min(left, 0.02))()

    def _verify_answers(self) -> None:
        """Against a process that nobody disturbs."""
        undisturbed = WarmWorker()
        plan = self.session.nodes[0].plan
        for layout, collectives in self.answers.items():
            self.found["wrong"] += undisturbed.ask(Plan(plan.program, plan.mesh, layout)).result(LIMIT).collectives != collectives
        self.pids.add(undisturbed.pid or 0)
        undisturbed.close()


def cancel_milliseconds(chance: random.Random) -> float:
    """The longest of `CANCELS` questions given up at a random moment of the answer."""
    worker, plan, took = WarmWorker(), Plan(build("gpt", layers=2), "data:4 model:2", "batch:data"), []
    while len(took) < CANCELS:
        worker.warm()
        while worker.pid is None or worker.is_busy:
            time.sleep(0.01)
        answer = worker.ask(plan)
        while not answer.running() and not answer.done():
            time.sleep(0.001)
        time.sleep(chance.random() * 0.1)
        begun = time.perf_counter()
        worker.cancel(answer)
        if answer.exception(LIMIT) is not None:  # else it was answered before
            took.append(time.perf_counter() - begun)
    worker.close()
    return 1e3 * max(took)


def processes() -> list[int]:
    """Those of this machine, without zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if path.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z":
                found.append(int(path.parent.name))
    return found


def kills(count: int, seed: int) -> dict[str, Any]:
    """The figures of so many kills."""
    found = Rounds(seed).run(count)
    return {**found, "cancel_ms": round(cancel_milliseconds(random.Random(seed)), 1), "seed": seed}  # noqa: S311


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 kills instead of 200")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    found = kills(20 if options.quick else 200, options.seed)
    print(json.dumps(found) if options.json else "\n".join(f"{name:10}{value:>12}" for name, value in found.items()))


if __name__ == "__main__":
    main()
