"""Cuts of the connection and restarts of the server, and whether the board of the visitor comes back as it was.

A visitor edits a board; the websocket is cut in the middle of it, and the page comes again at the address that names its board, as the page
does by itself. After some cuts the server is ended too, by SIGTERM or by SIGKILL, and started again on its port.
`lost` counts boards whose plan or undo was not there.

    python benchmarks/soundness_reconnects.py [--quick] [--json]
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from typing import Any

from served_client import Visitor
from served_load import free_port, wait_for

MOVES = (("", "model"), ("model", "data"), ("data", ""))
"""Where `d_ff` goes from and to, in turn."""


class Server:
    """The workbench as the command line serves it, on one port, with a folder of its own for histories."""

    def __init__(self, folder: str) -> None:
        self.port, self._folder = free_port(), folder
        self.url = f"http://127.0.0.1:{self.port}/"
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "workbench.cli", "serve", "--model", "two_layer", "--mesh", "data:4 model:2", "--no-open"]
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "WORKBENCH_STATE": self._folder}
        self._process = subprocess.Popen([*command, "--port", str(self.port)], stdout=subprocess.DEVNULL, env=environment)
        wait_for(f"{self.url}liveness", self._process)

    def restart(self, number: signal.Signals) -> None:
        self.end(number)
        self._start()

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)
        self._process.wait(30)


def reconnects(cuts: int, restarts: int, seed: int) -> dict[str, Any]:
    """Cut and restart; what was lost."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        try:
            lost = asyncio.run(_cut_often(server, cuts, restarts, random.Random(seed)))  # noqa: S311 - moments of cuts are no secret
        finally:
            server.end()
    return {"cuts": cuts, "restarts": restarts, "lost": lost, "seed": seed}


async def _cut_often(server: Server, cuts: int, restarts: int, chance: random.Random) -> int:
    restarting = set(chance.sample(range(cuts), restarts))
    visitor, lost, seq, at = await Visitor.come(server.url), 0, 0, 0
    for cut in range(cuts):
        for _ in range(chance.randint(1, 3)):
            seq += 1
            source, target = MOVES[at % len(MOVES)]
            at += 1
            await visitor.edit(seq, verb="drop", dim="hidden", source=source, target=target, add=False)
        board_id, layout, undo = visitor.board_id, visitor.board["layout"], visitor.board["undo"]
        await visitor.cut()
        if cut in restarting:
            server.restart(signal.SIGTERM if chance.random() < 0.5 else signal.SIGKILL)
        visitor = await Visitor.come(server.url, f"?board={board_id}")
        lost += (visitor.board["layout"], visitor.board["undo"]) != (layout, undo)
    await visitor.leave()
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10 cuts and 2 restarts")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    found = reconnects(*((10, 2) if options.quick else (100, 20)), options.seed)
    print(json.dumps(found) if options.json else "\n".join(f"{name:10}{value:>12}" for name, value in found.items()))


if __name__ == "__main__":
    main()
