"""Options that several commands read, and the access rules of a served page."""

import argparse
import errno
import ipaddress
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.core.parse_untrusted import read_allowed, read_allowed_here
from workbench.errors import WorkbenchError

DEFAULT_MODEL, DEFAULT_MESH = "gpt", "data:4 model:2"
"""The plan of a command line that names none."""


def allowed_modules(options: argparse.Namespace) -> tuple[str, ...]:
    """Modules whose programs files may name, from the command line and the environment."""
    return (*read_allowed(options.allow), *read_allowed_here())


# Access to the served page: `--address` and `--origins`, checked before anything is traced.


def reach_of(options: argparse.Namespace) -> dict[str, Any]:
    """`address` and `origins` for `app.page.serve.serve`; empty for a socket. Raises `WorkbenchError` if they are
    invalid.
    """
    from workbench.app.page.request_policy import verify_origins
    from workbench.app.page.serve import LOOPBACK, verify_address, verify_port

    origins = tuple(each.strip() for text in options.origins for each in text.split(",") if each.strip())
    if options.unix_socket:
        if options.address or origins:
            reason = "`--address` and `--origins` need a port; `--unix-socket` has none."
            raise WorkbenchError(reason, ["leave them out: everyone who can open the socket is served", "leave out `--unix-socket`"])
        return {}
    verify_port(options.port)
    verify_origins(origins)
    address = LOOPBACK if options.address is None else options.address
    verify_address(address)
    verify_port_is_free(address, options.port)
    if not _is_loopback(address):
        print(warning(address, options.port, origins), file=sys.stderr)
    return {"address": address, "origins": origins}


def warning(address: str, port: int, origins: tuple[str, ...]) -> str:
    """The warning about who can reach a served page.

    >>> warning("0.0.0.0", 5006, ())
    'workbench: anyone who can reach 0.0.0.0 port 5006 can use this page and run plans here without signing in.'
    """
    names = f" as {', '.join(origins)}" if origins else ""
    return f"workbench: anyone who can reach {address} port {port}{names} can use this page and run plans here without signing in."


def is_private(options: argparse.Namespace) -> bool:
    """Whether only people on this machine can reach the page, so that it may list the contents of the folder."""
    return bool(options.unix_socket) or (not options.origins and (options.address is None or _is_loopback(options.address)))


def _is_loopback(address: str) -> bool:
    return all(ipaddress.ip_address(each[4][0]).is_loopback for each in socket.getaddrinfo(address, None))


def verify_port_is_free(address: str, port: int, option: str = "--port {}") -> None:
    """Raise `WorkbenchError` if another program listens on the port, before anything is planned or written."""
    for family, kind, protocol, _, place in socket.getaddrinfo(address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
        with socket.socket(family, kind, protocol) as probe:
            if sys.platform != "win32":  # where it would share the port with a program that listens
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that has just ended leaves its port like this
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind(place)
            except OSError as error:
                if error.errno in {errno.EADDRINUSE, errno.EACCES}:  # others, such as an address that is not here, have errors of their own
                    raise _port_error(port, error, option) from None


def _port_error(port: int, error: OSError, option: str = "--port {}") -> WorkbenchError:
    ways_out = [f"use another port, {option.format(port + 1)}", "open the page that is already served there"]
    return WorkbenchError(f"Port {port} cannot be used: {error.strerror or error}.", ways_out)


@contextmanager
def listening(options: argparse.Namespace) -> Iterator[None]:
    """Convert errors about the port or socket of a server to messages."""
    try:
        yield
    except OSError as error:
        if options.unix_socket:
            reason = f"Cannot listen on `{options.unix_socket}`: {error.strerror or error}."
            raise WorkbenchError(reason, ["give another path"]) from None
        raise _port_error(options.port, error) from None
