"""Many visitors of one served workbench at once: how long an edit takes, and whether any of its tables is lost.

Each visitor is a page with a websocket of its own, without a browser, and edits a board of the zoo's `gpt` every few seconds: it drops a
dimension on an axis and waits for the board, then for the tables that the board announced. `lost` counts the edits whose tables came
only after they were asked for again, as the page does after three seconds.

    python benchmarks/served_load.py [--quick] [--json] [--boards N] [--edits N] [--every SECONDS] [--slow] [--visits N]

With `--slow` one more board is on a program of which an edit takes 600 ms, and `others_p95_ms` is what the rest then see. With
`--visits` pages are opened and closed at the end, and `rss_growth_mib` is what the server and its processes keep of them: resident memory
after the visits, less that after the first tenth of them. The goals: 150 ms at the 95th percentile with 50 boards that edit every 5 s,
200 ms beside a slow one, none lost.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from served_client import Visitor

from workbench.app.processes.board_process_pool import LINGERING

LAYERS, EDIT_MS = 8, 600.0  # layers of the program that is timed to find how many take so long
SLOW_PLAN = """
import statistics, sys, time
from workbench.plan.edits import ShardDim
from workbench.models import build
from workbench.public_plan import Plan
from workbench.session.plan_history import Session

def edit_ms(plan):
    session, times = Session(plan), []
    for axes in (("model",), (), ("model",), (), ("model",)):
        begun = time.perf_counter()
        session.apply(ShardDim("d_ff", axes))
        times.append(1000 * (time.perf_counter() - begun))
    return statistics.median(times)

def plan(layers):
    return Plan(build("gpt", layers=layers, scan=False), "data:4 model:2", "batch:data")

layers = int(sys.argv[2])
plan(max(1, round(layers * float(sys.argv[3]) / edit_ms(plan(layers))))).save(sys.argv[1])
"""


@dataclass(slots=True)
class Seen:
    """What the visitors saw: seconds per edit."""

    answered: list[float] = field(default_factory=list)
    charted: list[float] = field(default_factory=list)
    lost: int = 0


async def edit_often(visitor: Visitor, edits: int, every: float, seen: Seen, chance: random.Random) -> None:
    """One visitor. Edits come at random moments: `every` so many seconds on average."""
    await asyncio.sleep(chance.uniform(0, every))
    for seq in range(1, edits + 1):
        begun = time.monotonic()
        there, back = ("", "model") if seq % 2 else ("model", "")
        answered, charted, lost = await visitor.edit(seq, verb="drop", dim="d_ff", source=there, target=back, add=False)
        seen.answered.append(answered)
        seen.charted.append(charted)
        seen.lost += lost
        await asyncio.sleep(max(0.0, chance.uniform(0, 2 * every) - (time.monotonic() - begun)))
    await visitor.leave()


async def load(url: str, options: argparse.Namespace) -> tuple[Seen, Seen]:
    """What most visitors see, and the one of the slow board, once all of them are there."""
    seen, slow = Seen(), Seen()
    told = [(seen, "")] * options.boards + [(slow, "?file=slow.plan.json")] * options.slow
    visitors = await asyncio.gather(*(Visitor.come(url, query) for _, query in told))
    chances = map(random.Random, range(len(told)))
    edits = zip(visitors, told, chances, strict=True)
    await asyncio.gather(*(edit_often(visitor, options.edits, options.every, to, chance) for visitor, (to, _), chance in edits))
    return seen, slow


async def visit_often(url: str, visits: int, process: psutil.Process) -> float:
    """MiB that the server keeps of the last nine tenths of the visits."""
    before = 0.0
    for visit in range(visits):
        await (await Visitor.come(url)).leave()
        if visit == visits // 10:
            before = await _settled_mib(process)
    return await _settled_mib(process) - before


async def _settled_mib(process: psutil.Process) -> float:
    """Resident memory of the server, and of the processes it started, once no board waits any more for a page that was cut off."""
    await asyncio.sleep(1.5 * LINGERING)
    return _mib(process)


def _mib(process: psutil.Process) -> float:
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            memory = each.memory_full_info()
            total += getattr(memory, "pss", memory.uss)
        except psutil.NoSuchProcess:  # it ended while they were counted
            continue
    return total / (1 << 20)


@contextmanager
def served(slow: bool) -> Iterator[tuple[str, psutil.Process]]:
    """The workbench as the command line serves it: its address, and its process."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        if slow:
            subprocess.run([sys.executable, "-c", SLOW_PLAN, str(Path(folder) / "slow.plan.json"), str(LAYERS), str(EDIT_MS)], check=True)
        command = [sys.executable, "-m", "workbench.cli", "serve", "--model", "gpt", "--mesh", "data:4 model:2", "--layout", "batch:data"]
        options = ["--port", str(port), "--no-open", "--root", folder, "--allow", "gpt"]
        server = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, env={**os.environ, "JAX_PLATFORMS": "cpu"})
        try:
            wait_for(f"http://127.0.0.1:{port}/liveness", server)
            yield f"http://127.0.0.1:{port}/", psutil.Process(server.pid)
        finally:
            server.terminate()
            server.wait(30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    while True:
        if server.poll() is not None:
            raise SystemExit(f"the server ended with {server.returncode}")
        try:
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - the address is this script's own
        except OSError:
            time.sleep(0.1)
        else:
            return


def _percentile(seconds: list[float], percent: int) -> float:
    return round(1000 * statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1], 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="8 boards with 10 edits each, every second")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--boards", type=int)
    parser.add_argument("--edits", type=int, help="of each board")
    parser.add_argument("--every", type=float, help="seconds between two edits of a board")
    parser.add_argument("--slow", action="store_true", help="one more board on a slow program")
    parser.add_argument("--visits", type=int, default=0, help="pages to open and close at the end")
    options = parser.parse_args()
    usual = (8, 10, 1.0) if options.quick else (50, 24, 5.0)
    for name, value in zip(("boards", "edits", "every"), usual, strict=True):
        if getattr(options, name) is None:
            setattr(options, name, value)
    print_results(measure(options), as_json=options.json)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with served(options.slow) as (url, process):
        seen, slow = asyncio.run(load(url, options))
        growth = asyncio.run(visit_often(url, options.visits, process)) if options.visits else None
    p50, p95 = _percentile(seen.answered, 50), _percentile(seen.answered, 95)
    return {
        "boards": options.boards,
        "edits": len(seen.answered) + len(slow.answered),
        "p50_ms": p50,
        "p95_ms": p95,
        "tables_p95_ms": _percentile(seen.charted, 95),
        "lost": seen.lost + slow.lost,
        "others_p95_ms": p95 if options.slow else None,
        "slow_p50_ms": _percentile(slow.answered, 50) if options.slow else None,
        "rss_growth_mib": None if growth is None else round(growth, 1),
    }


def print_results(results: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(results, indent=1))
        return
    for name, value in results.items():
        if value is not None:
            print(f"{name:16}{value:>10}")


if __name__ == "__main__":
    main()
