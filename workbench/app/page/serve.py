"""Serve the board. Every page load gets a session of its own; nothing is fetched from other servers."""

import asyncio
import functools
import socket
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import panel as pn

from workbench.app.page.guarded_server import HealthHandler, guarded_server, serve_in_thread
from workbench.app.page.page_template import HEALTH, TITLE, template_of
from workbench.app.page.part_changes import VisitorWindow
from workbench.app.page.request_policy import Hosts, allowed_hosts
from workbench.app.page.requested_visit import ServeOptions, open_visit
from workbench.app.page.shutdown import serve_until_signal
from workbench.app.page.visit import WATCHED, Settling, VisitContext
from workbench.app.page.visitor_screen import Screen, on_document
from workbench.app.processes.board_process_pool import Boards
from workbench.app.processes.child_table import States
from workbench.app.runners.job_queue import JobQueue
from workbench.app.runners.worker_runner import RUN_LIMIT, EnginePartitioner
from workbench.documents import read_allowed
from workbench.errors import WorkbenchError
from workbench.exercises import Exercise
from workbench.plan.plan import Plan
from workbench.tracing import untested_jax
from workbench.widgets.run.runner_protocol import Runner
from workbench.widgets.shared_states import at_once

LOOPBACK = "127.0.0.1"
LAST_PORT = 65_535
PROXY_PATH = "/board"  # not at the root, which a proxy requests just to check that the server is up


Opening = Callable[[Mapping[str, str], Screen], Callable[[], None]]
"""Opens the board that a URL asks for on a screen, and returns what to call when its page is closed."""


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
    jobs: int | None = None,
    time_limit: float | None = None,
    tour: bool = False,
    allow: str | Iterable[str] = (),
    verify: bool = False,
    threaded: bool = False,
    exercise: Exercise | None = None,
    start: bool = False,
    folder: str | Path | None = None,
) -> Any:
    """Serve the board over `plan` at `http://address:port/`, until interrupted, or ended with SIGTERM (exit code 0).

    `plan` may be a function that makes one: it is called for each visitor, and its error is shown on the page. With a `file` the page opens
    and saves that plan file instead; with a `root`, `?file=name.plan.json` any plan file below it. Only this machine can reach the default
    address; to serve others, give an `address` and the `origins` (`"host:port"`) they will use. Runs and compilations of all boards go
    through one queue: one run at a time and a few compilations, or so many `jobs` of each, for `time_limit` seconds at most each (half an
    hour, if none is given). A `runner` of your own gets jobs at once, without a queue. Plan files that visitors open may name models of the
    zoo, what was built in this process, and programs of the modules that `allow` names (`"mine"`), which are imported then. With a `tour`
    first-time visitors are shown around. With a `unix_socket` it listens there instead of at a port; whoever may open it, a proxy say, must
    check the origins. Each board lives in a process of its own; with a `runner`, an object of this process, all of them live here. With
    `verify` an error of `plan` is raised here, before anything is served, instead of shown on the page. With `threaded` it returns at once;
    `stop()` of what it returns ends it. Port 0 takes a free one. The questions of an `exercise` are above each board. With `start` a page
    begins with the start panel, in place of the plan; its list of functions to begin with is of `folder`, whose Python files are read, and
    of the modules that `allow` names. None is imported before it is allowed and chosen.
    """
    make = live_plan(plan) if isinstance(plan, Plan) else plan
    limit = RUN_LIMIT if time_limit is None else time_limit
    file, root, folder = (Path(each) if each else None for each in (file, root, folder))
    served = ServeOptions(make, file, root, tour, limit, read_allowed(allow), exercise, start, folder)
    if runner:
        opening = _open_in_process(served, runner)
        return listen(lambda: page(opening), port, open_browser, address, origins, unix_socket, threaded=threaded)
    boards = Boards(served, JobQueue() if jobs is None else JobQueue(jobs, jobs))
    if verify:
        boards.verify()
    opening = _open_in_own_processes(boards)
    running = listen(
        lambda: page(opening),
        port,
        open_browser,
        address,
        origins,
        unix_socket,
        threaded=threaded,
        close=boards.close,
        states=boards.children,
    )
    weakref.finalize(running, boards.close)
    return running


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
    states: Callable[[], States] = dict,
) -> Any:
    """Serve a page, made anew for each visitor, as `serve` describes. On shutdown the visitors' boards are `close`d; `states` is how the
    processes of the server are."""
    page = {PROXY_PATH if unix_socket else "/": make}
    listen_options, allowed = _socket_options(unix_socket) if unix_socket else _port_options(address, port, origins)
    options: dict[str, Any] = {"show": open_browser and not unix_socket, "verbose": not (threaded or unix_socket)}
    options["routes"] = ((f"/{HEALTH}", HealthHandler, {"states": states}),)
    if threaded:
        return serve_in_thread(page, listen_options, allowed, **options)
    make_server = functools.partial(guarded_server, page, listen_options, allowed, **options)
    if _has_event_loop():  # a notebook's kernel, say: the server is left to it
        server = make_server()
        server.start()
        return server
    return serve_until_signal(make_server, close, unix_socket)


def _has_event_loop() -> bool:
    """Whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _socket_options(path: str) -> tuple[dict[str, Any], None]:
    return {"unix_socket": path}, None


def verify_port(port: int) -> None:
    """Raises `WorkbenchError` for an invalid port."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= LAST_PORT:
        ways_out = [f"choose a port from 1024 to {LAST_PORT}", "choose 0 for any free port"]
        raise WorkbenchError(f"{port!r} is not a port: ports are whole numbers from 0 to {LAST_PORT}.", ways_out)


def _port_options(address: str, port: int, origins: tuple[str, ...]) -> tuple[dict[str, Any], Hosts]:
    verify_port(port)
    verify_address(address)
    port = port or _free_port(address)
    return {"port": port, "address": address}, allowed_hosts(address, port, origins)


def verify_address(address: str) -> None:
    """Raises `WorkbenchError` for an address that this machine cannot listen at."""
    try:
        _free_port(address)
    except (OSError, UnicodeError) as error:
        reason = f"{address!r} is not an address that this machine can listen at: {getattr(error, 'strerror', None) or error}."
        ways_out = [
            f"leave it out, which is {LOOPBACK}: this machine only",
            "give one of this machine's addresses, or 0.0.0.0 for all of them",
        ]
        raise WorkbenchError(reason, ways_out) from None


def _free_port(address: str) -> int:
    """A free port, chosen here and not by the server, whose allowed hosts must be known before."""
    if not address:
        raise OSError("it is empty")
    family, *_ = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0]
    with socket.socket(family) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def page(open_board: Opening) -> pn.Template:
    """The page of one visitor."""
    document = pn.state.curdoc
    screen = Screen(document)
    leave = open_board(_query_arguments(), screen)
    if document:
        pn.state.on_session_destroyed(lambda _: _close_page(screen, leave))
    return template_of(TITLE, screen.root, opens=True, untested=untested_jax() or "")


def _close_page(screen: Screen, leave: Callable[[], None]) -> None:
    screen.leave()
    leave()


def _open_in_process(served: ServeOptions, runner: Runner) -> Opening:
    """Boards in this process."""

    def open_board(query: Mapping[str, str], screen: Screen) -> Callable[[], None]:
        document = pn.state.curdoc
        defer = on_document(document) if document else at_once
        settling = Settling(EnginePartitioner(), defer) if document else None
        visit = open_visit(served, query, VisitContext(VisitorWindow(screen.show), runner, defer, settling=settling))
        screen.hear = visit.hear
        if document:
            pn.state.add_periodic_callback(visit.look, period=WATCHED)
        return visit.close

    return open_board


def _open_in_own_processes(boards: Boards) -> Opening:
    """Boards in processes of their own."""

    def open_board(query: Mapping[str, str], screen: Screen) -> Callable[[], None]:
        board = boards.open(query, screen)
        return (lambda: board.leave(screen)) if board else (lambda: None)

    return open_board


def _query_arguments() -> dict[str, str]:
    """The arguments of the URL, the last of each name."""
    return {name: values[-1].decode("utf-8", "replace") for name, values in (pn.state.session_args or {}).items()}


def live_plan(plan: Plan) -> Callable[[], Plan]:
    """A function that returns a plan of this process, in another one too: with the functions by which its program can be traced again."""
    return partial(_with_functions, plan, plan.program.retrace, plan.program.list_removed)


def _with_functions(plan: Plan, retrace: Any, list_removed: Any) -> Plan:
    return plan.updated(program=replace(plan.program, retrace=retrace, list_removed=list_removed))
