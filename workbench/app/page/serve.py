"""Serves the board. Every page load gets its own session; nothing is fetched from other servers."""

import asyncio
import functools
import socket
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import panel as pn

from workbench.app.page.guarded_server import HealthHandler, guarded_server, serve_in_thread
from workbench.app.page.page_template import HEALTH, TITLE, template_of
from workbench.app.page.request_policy import Hosts, allowed_hosts
from workbench.app.page.serve_options import ServeOptions, live_plan
from workbench.app.page.shutdown import serve_until_signal
from workbench.app.page.visitor_screen import Opening, Screen
from workbench.app.processes.board_process_pool import Boards
from workbench.app.processes.child_table import States
from workbench.app.runners.job_queue import RUN_LIMIT, JobQueue
from workbench.core.jax_installation import untested_jax
from workbench.core.parse_untrusted import read_allowed
from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan

if TYPE_CHECKING:
    from workbench.exercises import Exercise
    from workbench.widgets.run.runner_protocol import Runner

LOOPBACK = "127.0.0.1"
LAST_PORT = 65_535
PROXY_PATH = "/board"  # not the root, which a proxy requests as a health check


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
    runner: "Runner | None" = None,
    jobs: int | None = None,
    time_limit: float | None = None,
    tour: bool = False,
    allow: str | Iterable[str] = (),
    verify: bool = False,
    threaded: bool = False,
    exercise: "Exercise | Callable[[], Exercise] | None" = None,
    start: bool = False,
    folder: str | Path | None = None,
    query: str = "",
) -> Any:
    """Serve the board over `plan` at `http://address:port/` until interrupted, or ended with SIGTERM (exit code 0).

    `plan` and `exercise` may be functions, called for each visitor, whose error is shown on the page. With a `file` the page opens
    and saves that plan file; with a `root`, `?file=name.plan.json` opens any plan file below it.

    The default address is reachable from this machine only; to serve others, give an `address` and the `origins`
    (`"host:port"`) they will use. A `unix_socket` replaces the port; its client, such as a proxy, must check the
    origins. Port 0 takes a free one.

    Runs and compilations of all boards share one queue: one run and a few compilations at a time, or `jobs` of each,
    for at most `time_limit` seconds each (default: half an hour). Your own `runner` gets jobs at once, without a queue.
    Each board has a process, but with a `runner`, an object of this process, all boards live here.

    Plan files opened by visitors may name models of the zoo, programs built in this process, and programs of the
    modules in `allow` (`"mine"`), which are imported then. With `tour`, first-time visitors are shown around. The
    questions of an `exercise` are above each board. With `start` a page begins with the start panel; it lists functions
    in the Python files of `folder`, which are only read, and in the modules of `allow`. A module is imported only once
    allowed and chosen.

    With `verify`, an error of `plan` is raised here before serving. With `threaded`, it returns at once; `stop()` of
    the result ends it.
    """
    make = live_plan(plan) if isinstance(plan, Plan) else plan
    limit = RUN_LIMIT if time_limit is None else time_limit
    file, root, folder = (Path(path) if path else None for path in (file, root, folder))
    served = ServeOptions(make, file, root, tour, limit, read_allowed(allow), exercise, start, folder)
    reach = (port, open_browser, address, origins, unix_socket)
    if runner:
        from workbench.app.page.boards_in_process import open_in_process  # the only boards for which this process imports JAX

        opening = open_in_process(served, runner)
        return listen(lambda: page(opening), *reach, threaded=threaded, query=query)
    boards = Boards(served, JobQueue() if jobs is None else JobQueue(jobs, jobs))
    if verify:
        boards.verify()
    opening = _open_in_own_processes(boards)
    running = listen(lambda: page(opening), *reach, threaded=threaded, close=boards.close, states=boards.children, query=query)
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
    query: str = "",
) -> Any:
    """Serve a page as `serve` does; `close` ends the boards on shutdown, `states` returns process states."""
    page = {PROXY_PATH if unix_socket else "/": make}
    listen_options, allowed = ({"unix_socket": unix_socket}, None) if unix_socket else _port_options(address, port, origins)
    shown = f"/{query}" if open_browser and not unix_socket else ""
    options: dict[str, Any] = {"show": shown, "verbose": not (threaded or unix_socket)}
    options["routes"] = ((f"/{HEALTH}", HealthHandler, {"states": states}),)
    if threaded:
        return serve_in_thread(page, listen_options, allowed, **options)
    make_server = functools.partial(guarded_server, page, listen_options, allowed, **options)
    if _has_event_loop():  # such as a notebook's kernel, which then runs the server
        server = make_server()
        server.start()
        return server
    return serve_until_signal(make_server, close, unix_socket)


def _has_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def verify_port(port: int) -> None:
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= LAST_PORT:
        ways_out = [f"choose a port from 1024 to {LAST_PORT}", "choose 0 for any free port"]
        raise WorkbenchError(f"{port!r} is not a port: ports are whole numbers from 0 to {LAST_PORT}.", ways_out)


def _port_options(address: str, port: int, origins: tuple[str, ...]) -> tuple[dict[str, Any], Hosts]:
    verify_port(port)
    verify_address(address)
    port = port or _free_port(address)
    return {"port": port, "address": address}, allowed_hosts(address, port, origins)


def verify_address(address: str) -> None:
    """Raise `WorkbenchError` for an address that this machine cannot listen on."""
    try:
        _free_port(address)
    except (OSError, UnicodeError) as error:
        reason = f"This machine cannot listen on {address!r}: {getattr(error, 'strerror', None) or error}."
        ways_out = [
            f"leave it out: the default, {LOOPBACK}, is this machine only",
            "give one of this machine's addresses, or 0.0.0.0 for all of them",
        ]
        raise WorkbenchError(reason, ways_out) from None


def _free_port(address: str) -> int:
    """Choose a free port here, because the allowed hosts must be known before the server starts."""
    if not address:
        raise OSError("it is empty")
    family, *_ = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0]
    with socket.socket(family) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def page(open_board: Opening) -> pn.Template:
    document = pn.state.curdoc
    screen = Screen(document)
    leave = open_board(_query_arguments(), screen)
    if document:
        pn.state.on_session_destroyed(lambda _: _close_page(screen, leave))
    return template_of(TITLE, screen.root, opens=True, untested=untested_jax() or "")


def _close_page(screen: Screen, leave: Callable[[], None]) -> None:
    screen.leave()
    leave()


def _open_in_own_processes(boards: Boards) -> Opening:
    def open_board(query: Mapping[str, str], screen: Screen) -> Callable[[], None]:
        board = boards.open(query, screen)
        return (lambda: board.leave(screen)) if board else (lambda: None)

    return open_board


def _query_arguments() -> dict[str, str]:
    return {name: values[-1].decode("utf-8", "replace") for name, values in (pn.state.session_args or {}).items()}
