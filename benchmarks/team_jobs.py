"""How the queue of a team's server does: five people, many short jobs, real processes of this machine, and a server killed in the middle.

    python benchmarks/team_jobs.py [--quick] [--json]

- `fairness`: the most jobs that somebody who was served had running beyond anybody who waited; goal at most 1 (with the job itself)
- `dispatch_ms`: from the submission of a job to an idle server until its process has said that it has started; median and 9th decile
- `cancel_seconds`: from asking until the job is written down as cancelled, of jobs that run; median and worst; goal at most 2
- `reattached_share`: of the jobs that ran when the server was killed, those that the next one followed to their end; goal 1
- `lost`, `run_twice`: jobs; goal 0
- `jobs_a_second`: of all, with six at a time
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import select

from tests.support.team_jobs import PEOPLE, dispatching, in_a_process, job_store, states_of, tiny_command, tiny_spec
from workbench.team.jobs.dispatcher import Dispatcher
from workbench.team.jobs.here import Here
from workbench.team.jobs.queue import JobLimits
from workbench.team.store.store import Store
from workbench.team.store.tables import StoredJob

AT_ONCE = 6
LIMITS = {"here": JobLimits(jobs=AT_ONCE, person=AT_ONCE, project=AT_ONCE)}
SERVER = """
import sys, time
from pathlib import Path
from benchmarks.team_jobs import make_dispatcher
from workbench.team.store.store import Store
folder = Path(sys.argv[1])
make_dispatcher(Store.open(f"sqlite:///{folder}/team.db"), folder).start()
time.sleep(3600)
"""


def make_dispatcher(store: Store, folder: Path) -> Dispatcher:
    return Dispatcher(store, folder / "jobs", [Here()], command=tiny_command, limits=LIMITS)


def wait_for(is_so: Callable[[], bool]) -> float:
    """Seconds until it is so."""
    start = time.perf_counter()
    while not is_so():
        time.sleep(0.005)
    return time.perf_counter() - start


def measure_latency(folder: Path, count: int) -> list[float]:
    """Milliseconds from a submission to the first event, one job after another."""
    store = job_store(folder)
    found = []
    with dispatching(make_dispatcher(store, folder)) as dispatcher:
        for _ in range(count):
            start = time.perf_counter()
            job_id = dispatcher.put(tiny_spec(), "here", project_id="alpha", author_id="ada")
            wait_for(lambda job_id=job_id: bool(dispatcher.read_events(job_id)))
            found.append((time.perf_counter() - start) * 1e3)
            wait_for(lambda job_id=job_id: states_of(store)[job_id] == "done")
    store.close()
    return found


def measure_cancelling(folder: Path, count: int) -> list[float]:
    """Seconds from asking to the end, of jobs that wait in their step for ten seconds."""
    store = job_store(folder)
    found = []
    with dispatching(make_dispatcher(store, folder)) as dispatcher:
        for _ in range(count):
            job_id = dispatcher.put(tiny_spec(steps=100, options={"pause": "10"}), "here", project_id="alpha", author_id="ada")
            wait_for(lambda job_id=job_id: bool(dispatcher.read_events(job_id)))
            start = time.perf_counter()
            dispatcher.end(job_id)
            wait_for(lambda job_id=job_id: states_of(store)[job_id] == "cancelled")
            found.append(time.perf_counter() - start)
    store.close()
    return found


def measure_many(folder: Path, count: int) -> dict[str, float | None]:
    """So many jobs over a server that is killed when a third of them has ended."""
    store = job_store(folder)
    dispatcher = make_dispatcher(store, folder)
    start = time.perf_counter()
    lengths = [tiny_spec(steps=1 + number * 7 % 20) for number in range(count)]  # not all alike, so that they do not end together
    ids = [dispatcher.put(each, "here", project_id="alpha", author_id=PEOPLE[number % 5]) for number, each in enumerate(lengths)]
    with in_a_process(SERVER, str(folder)) as server:
        wait_for(lambda: is_amid(states_of(store), count))
        server.kill()
    under_way = [job_id for job_id, state in states_of(store).items() if state == "running"]
    with dispatching(dispatcher):
        wait_for(lambda: not set(states_of(store).values()) & {"queued", "starting", "running"})
    seconds = time.perf_counter() - start
    states = states_of(store)
    started = [sum(each.kind == "started" for each in dispatcher.read_events(job_id)) for job_id in ids]
    found = {
        "fairness": fairness_of(store),
        "reattached_share": sum(states[each] == "done" for each in under_way) / len(under_way) if under_way else None,
        "under_way": len(under_way),
        "lost": sum(state != "done" for state in states.values()),
        "run_twice": sum(each > 1 for each in started),
        "jobs_a_second": count / seconds,
    }
    store.close()
    return found


def is_amid(states: dict[str, str], count: int) -> bool:
    """Whether a third has ended, and several run."""
    found = Counter(states.values())
    return found["done"] >= count // 3 and found["running"] >= AT_ONCE // 2


def fairness_of(store: Store) -> int:
    """The most that somebody who was served had running, the job included, beyond somebody who waited."""
    with store.read() as session:
        jobs = session.scalars(select(StoredJob).order_by(StoredJob.started)).all()
    worst = 0
    for position, job in enumerate(jobs):
        running = Counter(each.author_id for each in jobs[:position] if each.ended > job.started)
        waiting = {each.author_id for each in jobs[position + 1 :]} - {job.author_id}
        worst = max([worst, *(running[job.author_id] + 1 - running[other] for other in waiting)])
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="40 jobs instead of 200")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    few, many = (5, 40) if options.quick else (20, 200)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        latency = measure_latency(folder / "latency", few)
        cancelling = measure_cancelling(folder / "cancelling", few)
        found = {
            "jobs": many,
            "people": len(PEOPLE),
            "dispatch_ms": {"median": statistics.median(latency), "p90": statistics.quantiles(latency, n=10, method="inclusive")[-1]},
            "cancel_seconds": {"median": statistics.median(cancelling), "worst": max(cancelling)},
            **measure_many(folder / "many", many),
            "machine": platform.machine(),
        }
    print(json.dumps(found, indent=1) if options.json else "\n".join(f"{key}: {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
