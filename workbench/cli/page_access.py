"""Who may reach the served page: `--address` and `--origins`, checked before anything is traced."""

import argparse
import ipaddress
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.errors import WorkbenchError


def reach_of(options: argparse.Namespace) -> dict[str, Any]:
    """`address` and `origins` as `app.page.serve.serve` takes them, none for a socket. Raises `WorkbenchError` for invalid ones."""
    from workbench.app.page.request_policy import verify_origins
    from workbench.app.page.serve import LOOPBACK, verify_address, verify_port

    origins = tuple(each.strip() for text in options.origins for each in text.split(",") if each.strip())
    if options.unix_socket:
        if options.address or origins:
            reason = "`--address` and `--origins` are of a server at a port, and `--unix-socket` has none."
            raise WorkbenchError(reason, ["leave them out: whoever may open the socket is served", "leave out `--unix-socket`"])
        return {}
    verify_port(options.port)
    verify_origins(origins)
    address = LOOPBACK if options.address is None else options.address
    verify_address(address)
    if not _is_loopback(address):
        print(warning(address, options.port, origins), file=sys.stderr)
    return {"address": address, "origins": origins}


def warning(address: str, port: int, origins: tuple[str, ...]) -> str:
    """Who can reach a page that is served to others.

    >>> warning("0.0.0.0", 5006, ())
    'workbench: everybody who can reach 0.0.0.0 port 5006 may use this page and run plans here, without signing in.'
    """
    names = f" as {', '.join(origins)}" if origins else ""
    return f"workbench: everybody who can reach {address} port {port}{names} may use this page and run plans here, without signing in."


def _is_loopback(address: str) -> bool:
    return all(ipaddress.ip_address(each[4][0]).is_loopback for each in socket.getaddrinfo(address, None))


@contextmanager
def listening(options: argparse.Namespace) -> Iterator[None]:
    """What prevents a server from using its port or socket, in words."""
    try:
        yield
    except OSError as error:
        if options.unix_socket:
            reason = f"`{options.unix_socket}` cannot be listened at: {error.strerror or error}."
            raise WorkbenchError(reason, ["give another path"]) from None
        ways_out = [f"give another one, --port {options.port + 1}", "open the page that is already served there"]
        raise WorkbenchError(f"Port {options.port} cannot be used: {error.strerror or error}.", ways_out) from None
