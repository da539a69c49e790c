"""Serving the board. Every page load gets a session of its own; nothing is fetched from anywhere else."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import panel as pn

from workbench.app.ending import serve_until_told
from workbench.app.plan_file import PlanFile, file_under
from workbench.app.visit import WATCHED, FileVisit, LabVisit, Visit, address_of, failure_text
from workbench.documents import parse_link
from workbench.errors import DocumentError, WorkbenchError
from workbench.plan import Plan
from workbench.widgets.host import Host
from workbench.widgets.runner import Runner, WorkerRunner

LOOPBACK = "127.0.0.1"
LAST_PORT = 65_535
TITLE = "Sharding workbench"
BEHIND_PROXY = "/board"  # not at the root, which a proxy asks for just to see whether somebody is there

_PAGE = Path(__file__).parent / "page.html"


@dataclass(frozen=True, slots=True)
class Served:
    """What the pages show: `make` a plan to begin with, or `file`, or with `?file=` any plan file under `root`."""

    make: Callable[[], Plan]
    runner: Runner | None
    file: Path | None = None
    root: Path | None = None
    tour: bool = False


def serve(
    plan: Plan | Callable[[], Plan],
    port: int = 5006,
    *,
    open_browser: bool = True,
    address: str = LOOPBACK,
    origins: tuple[str, ...] = (),
    unix_socket: str | None = None,
    file: str | Path | None = None,
    root: str | Path | None = None,
    runner: Runner | None = None,
    tour: bool = False,
    threaded: bool = False,
) -> Any:
    """Serve the board over `plan` at `http://address:port/`, until interrupted, or ended with SIGTERM (exit code 0).

    `plan` may be a function that makes one: it is called for each visitor, and its error is shown on the page.
    With a `file` the page opens and saves that plan file instead; with a `root`, `?file=name.plan.json` any plan file below it.
    Only this machine can reach the default address; to serve others, give an `address` and the `origins` (`"host:port"`) they will use.
    With a `tour` whoever comes for the first time is shown around.
    A `unix_socket` is listened at instead of a port; whoever may open it, a proxy say, vouches for the origins.
    With `threaded` it returns at once; `stop()` of what it returns ends it. Port 0 takes a free one.
    """
    make = (lambda: plan) if isinstance(plan, Plan) else plan
    served = Served(make, runner or WorkerRunner(), Path(file) if file else None, Path(root) if root else None, tour)
    return listen(lambda: page(served), port, open_browser, address, origins, unix_socket, threaded=threaded)


def listen(
    make: Callable[[], pn.Template],
    port: int,
    open_browser: bool,
    address: str,
    origins: tuple[str, ...],
    unix_socket: str | None,
    *,
    threaded: bool,
    close: Callable[[], None] = lambda: None,
) -> Any:
    """Serve a page, made anew for each visitor, as `serve` describes. When it is told to end, what visitors have is `close`d."""

    def start() -> Any:
        return pn.serve(
            {BEHIND_PROXY if unix_socket else "/": make},
            **(_at_socket(unix_socket) if unix_socket else _at_port(address, port, origins)),
            show=open_browser and not unix_socket,
            threaded=threaded,
            start=threaded,
            verbose=not (threaded or unix_socket),
            liveness=True,
        )

    return start() if threaded else serve_until_told(start, close, unix_socket)


def _at_socket(path: str) -> dict[str, Any]:
    return {"unix_socket": path, "websocket_origin": ["*"]}


def verify_port(port: int) -> None:
    """Raises `WorkbenchError` for what is no port."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= LAST_PORT:
        ways_out = [f"give one of 1024 to {LAST_PORT}", "give 0, which takes a free one"]
        raise WorkbenchError(f"{port!r} is no port: ports are whole numbers from 0 to {LAST_PORT}.", ways_out)


def _at_port(address: str, port: int, origins: tuple[str, ...]) -> dict[str, Any]:
    verify_port(port)
    port = port or _free_port(address)
    return {"port": port, "address": address, "websocket_origin": [*origins, f"{address}:{port}", f"localhost:{port}"]}


def _free_port(address: str) -> int:
    """Taken here and not by the server, which has to know beforehand from which origins it may be spoken to."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def page(served: Served) -> pn.Template:
    """The page of one visitor. Whatever fails becomes its text: a page that raises would show a spinner for ever."""
    failure, visit = "", None
    try:
        visit = _visit(served, _arguments())
    except Exception as error:  # noqa: BLE001 - the page must say so, whatever broke
        failure = failure_text(error)
    if visit and pn.state.curdoc:
        pn.state.on_session_destroyed(lambda _: visit.close())
    title = f"{visit.title} · {TITLE}" if visit and visit.title else TITLE
    return template_of(title, visit.root if visit else None, failure, by_link=bool(failure) and "plan" in _arguments())


def template_of(title: str, shown: Any, failure: str = "", *, by_link: bool = False) -> pn.Template:
    """The page around a board, or around a failure; `by_link` if a link led there."""
    template = pn.Template(_PAGE.read_text(encoding="utf-8"))
    template.add_variable("page_title", title)
    template.add_variable("failure", failure)
    template.add_variable("by_link", by_link)
    template.add_panel("board", pn.pane.Str("") if shown is None else shown)
    return template


def _visit(served: Served, asked: Mapping[str, str]) -> Visit:
    """The page that the address asks for."""
    document = pn.state.curdoc
    if asked.get("host") == "jupyterlab":
        return LabVisit(served.make, served.runner, document)
    file = _file(served, asked)
    if file and "plan" not in asked:
        opened = FileVisit(PlanFile(file), served.runner, document)
        if document:
            pn.state.add_periodic_callback(opened.look, period=WATCHED)
        return opened
    visit = Visit(served.runner, document)
    visit.show(_linked(served, asked), Host(link=address_of))
    if visit.board and served.tour and "plan" not in asked:
        visit.board.tour = True
    return visit


def _file(served: Served, asked: Mapping[str, str]) -> Path | None:
    """The plan file that the address asks for, else the one that is served. Raises `DocumentError` where files are not served."""
    if "file" not in asked:
        return served.file
    if served.root:
        return file_under(served.root, asked["file"])
    if served.file and served.file.name == asked["file"]:
        return served.file
    raise DocumentError(
        f"The address asks for the file `{asked['file'][:200]}`, and this server opens no folder of plan files.",
        ["start it with `--root FOLDER`", "leave `?file=` out of the address"],
    )


def _linked(served: Served, asked: Mapping[str, str]) -> Plan:
    """The plan to begin with, or the one that the address holds."""
    return parse_link(asked["plan"], known=served.make()) if "plan" in asked else served.make()


def _arguments() -> dict[str, str]:
    """The arguments of the address, the last of each name."""
    return {name: values[-1].decode("utf-8", "replace") for name, values in (pn.state.session_args or {}).items()}
