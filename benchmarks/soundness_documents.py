"""Plan documents, links, fleet files and gestures from anyone, legal and hostile, each opened under a watchdog.

    python benchmarks/soundness_documents.py --quick --json

None may import a module, raise anything but a `WorkbenchError`, end the process, compute for more than five seconds or take a GiB. Seconds
are of the processor, so that a busy machine does no harm; what has computed for thirty is ended, and so is what sleeps for ten minutes.
"""

import argparse
import json
import multiprocessing
import multiprocessing.connection
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from soundness_texts import NOBODY, Case, draw_case

LIMIT = 5.0  # seconds of the processor
MOST = 30  # seconds of the processor, after which the process is ended
PATIENCE = 600.0  # seconds on the clock, of one that neither computes nor answers
WARMED = 60  # cases that are opened before anything is counted
GIB = 1 << 30
QUICK, WHOLE = 300, 10_000
WORKERS = 2


@dataclass
class Outcome:
    """What became of one case; `error` is the type of what was raised, and `told` the end of it."""

    is_legal: bool = False
    error: str = ""
    told: str = ""
    imports: tuple[str, ...] = ()
    seconds: float = 0.0
    grown: int = 0


@dataclass
class Tally:
    """Outcomes counted, and the first few that should not be."""

    counts: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    slowest_case: str = ""
    failures: list[str] = field(default_factory=list)

    def add(self, case: Case, outcome: Outcome) -> None:
        wrong = {
            "imports": len(outcome.imports),
            "crashes": bool(outcome.error),
            "hangs": outcome.seconds > LIMIT,
            "over_1gib": outcome.grown > GIB,
        }
        self.counts.update({"documents": 1, "legal": outcome.is_legal, case.kind: 1, **wrong})
        if outcome.seconds > self.slowest:
            self.slowest, self.slowest_case = outcome.seconds, f"{case.kind} {case.number}"
        if any(wrong.values()) and len(self.failures) < 20:
            about = [name for name, count in wrong.items() if count]
            self.failures.append(f"{', '.join(about)}: {case.kind} {case.number}: {outcome.told or outcome.imports} {case.shown}")


def documents(count: int, seed: int) -> dict[str, Any]:
    """Open so many documents; 0 is the only good count of `imports`, `crashes`, `hangs` and `over_1gib`."""
    tally = Tally()
    with TemporaryDirectory() as folder:
        workers = [_Worker(folder) for _ in range(WORKERS)]
        numbers = iter(range(count))
        for worker in workers:
            worker.give(next(numbers, None), seed)
        while any(worker.case is not None for worker in workers):
            ready = multiprocessing.connection.wait([each.pipe for each in workers if each.case is not None], timeout=1.0)
            for worker in workers:
                if worker.case is None:
                    continue
                outcome = worker.outcome(is_ready=worker.pipe in ready)
                if outcome is not None:
                    tally.add(worker.case, outcome)
                    worker.give(next(numbers, None), seed)
        for worker in workers:
            worker.end()
    zero = dict.fromkeys(("documents", "legal", "imports", "crashes", "hangs", "over_1gib"), 0)
    counts = {name: int(number) for name, number in {**zero, **tally.counts}.items()}
    return {**counts, "seed": seed, "slowest_s": round(tally.slowest, 2), "slowest": tally.slowest_case, "failures": tally.failures}


class _Worker:
    """A process that opens one case after another, and is started anew when one has ended it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.case: Case | None = None
        self._since = 0.0
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve_cases, args=(theirs, self._folder), daemon=True)
        self._process.start()
        theirs.close()

    def give(self, number: int | None, seed: int) -> None:
        self.case = None if number is None else draw_case(number, Random(f"{seed} {number}"))  # noqa: S311 - repeatable
        self._since = time.monotonic()
        if self.case is not None:
            self.pipe.send(self.case)

    def outcome(self, *, is_ready: bool) -> Outcome | None:
        """What it says, or that it died or hangs; `None` if it is at work."""
        if is_ready:
            self._since = time.monotonic()
            try:
                return self.pipe.recv()  # `None` once it is at work
            except EOFError:
                self._process.join()
                code = self._process.exitcode
                is_late = code == -signal.SIGXCPU
                self._start()
                return Outcome(seconds=MOST, told="ended") if is_late else Outcome(error="death", told=f"exit code {code}")
        if time.monotonic() - self._since < PATIENCE:
            return None
        self._process.kill()
        self._start()
        return Outcome(seconds=PATIENCE, told="no answer")

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def serve_cases(pipe: Connection, folder: str) -> None:
    """In a worker: open what comes, and tell what became of it."""
    sys.path.insert(0, folder)
    opener = _Opener(folder)
    pipe.send(None)
    while True:
        case = pipe.recv()
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + MOST, hard))
        pipe.send(opener.open(case))


class _Opener:
    """Opens cases in this process; what a page or a command line would do with them."""

    def __init__(self, folder: str) -> None:
        from pathlib import Path

        from workbench.models import build
        from workbench.public_plan import Plan

        (Path(folder) / f"{NOBODY}.py").write_text("print('imported')\n")
        self._plan = Plan(build("two_layer"), "data:4 model:2", "batch:data; hidden:model")
        self._new_board()
        for number in range(WARMED):  # what our own code imports the first time is no document's doing
            case = draw_case(number, Random(number))  # noqa: S311 - repeatable
            if case.kind != "plan" or "two_layer" in case.text:
                self._try(case)

    def _new_board(self) -> None:
        from workbench.session.plan_history import Session
        from workbench.widgets.board.board import Board

        self._board = Board(Session(self._plan), lambda *_: None)

    def open(self, case: Case) -> Outcome:
        before, used, begun = set(sys.modules), _most_memory(), time.process_time()
        outcome = self._try(case)
        outcome.seconds, outcome.grown = time.process_time() - begun, _most_memory() - used
        tops = {name.partition(".")[0] for name in before}
        outcome.imports = tuple(name for name in sorted(set(sys.modules) - before) if name.partition(".")[0] not in tops)
        return outcome

    def _try(self, case: Case) -> Outcome:
        from workbench.errors import WorkbenchError

        try:
            return Outcome(is_legal=self._do(case))
        except WorkbenchError as error:
            str(error).encode()
            return Outcome()
        except BaseException as error:  # noqa: BLE001 - this is what is counted
            last = traceback.extract_tb(error.__traceback__)[-1]
            return Outcome(error=type(error).__name__, told=f"{type(error).__name__}: {str(error)[:200]} ({last.filename}:{last.lineno})")

    def _do(self, case: Case) -> bool:
        """True if it was obeyed; raises for what is refused."""
        from workbench.analysis.analyze import analyze
        from workbench.documents import dump_plan, parse_fleet, parse_link, parse_plan

        if case.kind == "fleet":
            parse_fleet(case.text, is_json=case.text.startswith("{"))
            return True
        if case.kind == "gesture":
            return self._gesture(json.loads(case.text))
        plan = parse_link(case.text, self._plan) if case.kind == "link" else parse_plan(case.text, "`theirs.plan.json`")
        str(analyze(plan)).encode()
        dump_plan(plan)
        return True

    def _gesture(self, gesture: dict[str, Any]) -> bool:
        self._board.answer(gesture)
        refusal = self._board.state()["refusal"]
        if refusal is None:
            return True
        if "itself failed" in refusal["message"]:
            raise RuntimeError(refusal["message"])
        if len(self._board.session.edits) > 50:
            self._new_board()
        return False


def _most_memory() -> int:
    """Bytes at the most, until now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} documents instead of {WHOLE:,}")
    parser.add_argument("--count", type=int, help="so many")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the documents (default: another one each time)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = documents(options.count or (QUICK if options.quick else WHOLE), options.seed)
    print(json.dumps(found, indent=1) if options.json else "\n".join(f"{name}: {value}" for name, value in found.items()))
    sys.exit(1 if any(found[name] for name in ("imports", "crashes", "hangs", "over_1gib")) else 0)


if __name__ == "__main__":
    main()
