"""Arguments that several commands share, how a command is added, and who may reach the page that one serves."""

import argparse
import errno
import ipaddress
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.cli.command_parser import CommandFunction, CommandParser, complete_with, hardware_names
from workbench.errors import WorkbenchError

DEFAULT_MODEL, DEFAULT_MESH = "gpt", "data:4 model:2"
"""The plan of a command line that names none."""

TERMS = """\
words used here:
  mesh     the devices as a grid with named axes: "data:4 model:2" is 4 x 2 = 8 devices
  layout   which tensor dimension is split over which mesh axis: "batch:data; d_ff:model";
           "params/head=[-, model]" places one argument in its own way ("-" keeps a dimension whole),
           "@mlp/dot_general=[data, ?, model]" constrains an intermediate value ("?" leaves it to the partitioner)
  plan     a program, a mesh and a layout; PLAN.json is one that was saved
"""


class FormerOption(argparse.Action):
    """An option under its former name: it is accepted, with a note on standard error that gives the present one."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:  # noqa: ARG002 - argparse passes the parser
        print(f"{option} is called --{self.dest.replace('_', '-')} now.", file=sys.stderr)
        setattr(namespace, self.dest, values)


_HARDWARE = 'what it is planned for: "TPU v5p 8x8x16", "32 nodes of 8 H100"; "attached" is this machine, which is measured once'


def add_command(added: Any, name: str, function: CommandFunction, text: str, *examples: str) -> argparse.ArgumentParser:
    """A command about one plan: a document, or a model with a mesh and a layout."""
    parser = add_parser(added, name, text, *examples, terms=True)
    parser.add_argument("plan", nargs="?", metavar="PLAN.json", help="a saved plan")
    parser.add_argument("--model", metavar="NAME", help="a model of the zoo (`workbench models` lists them), or package.module:function")
    parser.add_argument(
        "-a",
        "--argument",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an argument of the model, such as layers=2; may be repeated",
    )
    parser.add_argument("--mesh", metavar="AXES", help=f'mesh axes and sizes (default for a model: "{DEFAULT_MESH}")')
    parser.add_argument("--layout", metavar="RULES", help="what is split over which axis (default for a model: everything replicated)")
    parser.add_argument(
        "--remat",
        metavar="POLICY",
        help="what a layer keeps for its backward pass: none, full, dots, offload_dots_no_batch, dots_every:2, save:NAME+NAME, ...; "
        'on every other layer alone "full layers:1/2"',
    )
    parser.add_argument("--precision", metavar="TYPE", help="what the step is computed in: bfloat16, params=bfloat16,moments=float32, ...")
    parser.add_argument("--offload", metavar="WHAT", help="what is in the host's memory between steps: optimizer_state, nothing")
    add_hardware(parser, _HARDWARE)
    add_link(parser)
    parser.add_argument(
        "--axis-assignment",
        metavar="ROUTES",
        help='which mesh axis runs over which links: "data:x+y; model:z" (default: chosen automatically)',
    )
    parser.add_argument("--wiring", dest="axis_assignment", action=FormerOption, help=argparse.SUPPRESS)
    parser.add_argument(
        "--pipeline",
        metavar="STAGES",
        help='how the step is pipelined: "stages:4 micro_batches:16 schedule:1f1b"; one of several chunks a device says how many: '
        '"schedule:interleaved chunks:2"; the first two stages alone compute their forward pass again: "remat:first_2"',
    )
    add_hardware_file(parser)
    add_allow(parser)
    parser.set_defaults(command=function, serves=name == "serve")
    return parser


def add_parser(added: Any, name: str, text: str, *examples: str, description: str = "", terms: bool = False) -> CommandParser:
    """A command, or a verb of one, with its examples; its description is the text as a sentence, if no other is given."""
    parser: CommandParser = added.add_parser(
        name,
        help=text,
        description=description or f"{text[0].upper()}{text[1:]}.",
        epilog=f"{TERMS if terms else ''}\n{'examples' if len(examples) > 1 else 'example'}:\n  " + "\n  ".join(examples) + "\n",
    )
    return parser


def add_hardware(command: argparse.ArgumentParser, text: str) -> None:
    """Add `--hardware`; a shell completes the kinds in the catalogue."""
    option = command.add_argument("--hardware", metavar="NAME", help=text)
    complete_with(option, hardware_names)


def add_json(command: argparse.ArgumentParser, besides: str = "") -> None:
    """Add `--json`: one JSON object in place of text."""
    command.add_argument("--json", action="store_true", help=f"print one JSON object instead of tables{besides}")


def add_time_limit(command: argparse.ArgumentParser) -> None:
    """How long it may take."""
    command.add_argument("--time-limit", type=duration, metavar="SECONDS", help="stop after this many seconds (default: never)")


def add_hardware_file(command: argparse.ArgumentParser) -> None:
    """Add the user's own hardware file, beside the catalogue."""
    command.add_argument(
        "--hardware-file", metavar="FILE", help="a file of your own hardware, in the form of workbench/hardware/hardware.toml"
    )


def add_link(command: argparse.ArgumentParser) -> None:
    """Add the speed of a link, other than the catalogue's."""
    command.add_argument(
        "--link",
        metavar="NAME=SPEED",
        action="append",
        help="another speed of a link of the hardware, by physical axis or by the link's name: "
        '"node=200 Gb/s", "nvlink=400 GB/s, 3 us"; what a device sends in one direction, and the latency; may be repeated',
    )


def add_allow(command: argparse.ArgumentParser) -> None:
    """Add the modules whose programs a file may name."""
    command.add_argument(
        "--allow",
        metavar="MODULE",
        action="append",
        default=[],
        help="let files name programs of this module, which is imported then; may be repeated (WORKBENCH_ALLOW=mine,other does the same)",
    )


def add_events(command: argparse.ArgumentParser) -> None:
    """Add the file that others follow a job by."""
    command.add_argument(
        "--events",
        metavar="FILE",
        help="also add what happens to this file, a JSON object a line, for others to follow; of several processes each later one has "
        "a file of its own beside it: events.1.jsonl",
    )


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return int(text)


def duration(text: str, *, from_0: bool = False) -> float:
    """Seconds, positive, or with `from_0` none at all, and finite."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (0 < seconds < float("inf") or (from_0 and not seconds)):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds {'from' if from_0 else 'above'} 0")
    return seconds


# Who may reach the served page: `--address` and `--origins`, checked before anything is traced.


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
    verify_port_is_free(address, options.port)
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


def is_private(options: argparse.Namespace) -> bool:
    """Whether only people of this machine reach the page: then it may list what the folder holds."""
    return bool(options.unix_socket) or (not options.origins and (options.address is None or _is_loopback(options.address)))


def _is_loopback(address: str) -> bool:
    return all(ipaddress.ip_address(each[4][0]).is_loopback for each in socket.getaddrinfo(address, None))


def verify_port_is_free(address: str, port: int, option: str = "--port {}") -> None:
    """Raises `WorkbenchError` where another program listens at the port, before anything is planned or written."""
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
    ways_out = [f"give another one, {option.format(port + 1)}", "open the page that is already served there"]
    return WorkbenchError(f"Port {port} cannot be used: {error.strerror or error}.", ways_out)


@contextmanager
def listening(options: argparse.Namespace) -> Iterator[None]:
    """What prevents a server from using its port or socket, in words."""
    try:
        yield
    except OSError as error:
        if options.unix_socket:
            reason = f"`{options.unix_socket}` cannot be listened at: {error.strerror or error}."
            raise WorkbenchError(reason, ["give another path"]) from None
        raise _port_error(options.port, error) from None
