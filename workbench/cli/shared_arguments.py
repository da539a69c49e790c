"""Arguments shared by several commands, and the access rules of a served page."""

import argparse
import errno
import ipaddress
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.cli.command_parser import CommandFunction, CommandParser, complete_with, hardware_names
from workbench.core.parse_untrusted import read_allowed, read_allowed_here
from workbench.errors import WorkbenchError

DEFAULT_MODEL, DEFAULT_MESH = "gpt", "data:4 model:2"
"""The plan of a command line that names none."""

TERMS = """\
words used here:
  mesh     the devices as a grid with named axes: "data:4 model:2" is 4 x 2 = 8 devices
  layout   which tensor dimension is sharded over which mesh axis: "batch:data; d_ff:model";
           "params/head=[-, model]" overrides the sharding of one argument ("-": not sharded),
           "@mlp/dot_general=[data, ?, model]" constrains an intermediate value ("?" leaves it to the partitioner)
  plan     a program, a mesh and a layout; PLAN.json is a saved plan
"""


class FormerOption(argparse.Action):
    """A deprecated option: accepted, with a note on stderr that gives the present one."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:  # noqa: ARG002 - argparse passes the parser
        print(f"{option} is deprecated: use --{self.dest.replace('_', '-')}.", file=sys.stderr)
        setattr(namespace, self.dest, values)


_HARDWARE = 'hardware to plan for: "TPU v5p 8x8x16", "32 nodes of 8 H100"; "attached" is this machine, which is measured once'


def add_command(added: Any, name: str, function: CommandFunction, text: str, *examples: str) -> argparse.ArgumentParser:
    """Add a command about one plan: a document, or a model with mesh and layout."""
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
    parser.add_argument("--layout", metavar="RULES", help="dimensions sharded over mesh axes (default for a model: everything replicated)")
    parser.add_argument(
        "--remat",
        metavar="POLICY",
        help="rematerialisation policy: none, full, dots, offload_dots_no_batch, dots_every:2, save:NAME+NAME, ...; "
        'on every other layer: "full layers:1/2"',
    )
    parser.add_argument(
        "--precision",
        metavar="TYPE",
        help="number formats of the step: bfloat16, bf16 mixed, float8, params=bfloat16,moments=float32, ...",
    )
    parser.add_argument("--offload", metavar="WHAT", help="contents of host memory between steps: optimizer_state, nothing")
    add_hardware(parser, _HARDWARE)
    add_link(parser)
    parser.add_argument(
        "--axis-assignment",
        metavar="ROUTES",
        help='links of each mesh axis: "data:x+y; model:z" (default: chosen automatically)',
    )
    parser.add_argument("--wiring", dest="axis_assignment", action=FormerOption, help=argparse.SUPPRESS)
    parser.add_argument(
        "--pipeline",
        metavar="STAGES",
        help='pipeline: "stages:4 micro_batches:16 schedule:1f1b"; with several chunks per device, "schedule:interleaved chunks:2"; '
        'to recompute the forward pass on the first two stages only, "remat:first_2"',
    )
    add_hardware_file(parser)
    add_allow(parser)
    parser.set_defaults(command=function, serves=name == "serve")
    return parser


def add_parser(added: Any, name: str, text: str, *examples: str, description: str = "", terms: bool = False) -> CommandParser:
    """Add a command or verb with its examples. The description defaults to the text as a sentence."""
    parser: CommandParser = added.add_parser(
        name,
        help=text,
        description=description or f"{text[0].upper()}{text[1:]}.",
        epilog=f"{TERMS if terms else ''}\n{'examples' if len(examples) > 1 else 'example'}:\n  " + "\n  ".join(examples) + "\n",
    )
    return parser


def add_hardware(command: argparse.ArgumentParser, text: str) -> None:
    """Add `--hardware`, with shell completion from the catalogue."""
    option = command.add_argument("--hardware", metavar="NAME", help=text)
    complete_with(option, hardware_names)


def add_json(command: argparse.ArgumentParser, besides: str = "", default: Any = False) -> None:
    """Add `--json`: print one JSON object instead of text. A verb of a command that has it takes `argparse.SUPPRESS` as default."""
    command.add_argument("--json", action="store_true", default=default, help=f"print one JSON object instead of tables{besides}")


def add_time_limit(command: argparse.ArgumentParser) -> None:
    """Add `--time-limit`."""
    command.add_argument("--time-limit", type=duration, metavar="SECONDS", help="stop after this many seconds (default: never)")


def add_hardware_file(command: argparse.ArgumentParser) -> None:
    """Add `--hardware-file`, a supplement to the catalogue."""
    command.add_argument(
        "--hardware-file", metavar="FILE", help="a file that describes your hardware, in the format of workbench/hardware/hardware.toml"
    )


def add_link(command: argparse.ArgumentParser) -> None:
    """Add `--link`, which overrides link speeds of the catalogue."""
    command.add_argument(
        "--link",
        metavar="NAME=SPEED",
        action="append",
        help="override the speed of a link, by physical axis or link name: "
        '"node=200 Gb/s", "nvlink=400 GB/s, 3 us"; bandwidth per device and direction, and latency; may be repeated',
    )


def add_allow(command: argparse.ArgumentParser) -> None:
    """Add `--allow`, the modules whose programs a file may name."""
    command.add_argument(
        "--allow",
        metavar="MODULE",
        action="append",
        default=[],
        help="allow files to name programs of this module, which is then imported; may be repeated (or set WORKBENCH_ALLOW=mine,other)",
    )


def allowed_modules(options: argparse.Namespace) -> tuple[str, ...]:
    """Modules whose programs files may name, from the command line and the environment."""
    return (*read_allowed(options.allow), *read_allowed_here())


def add_events(command: argparse.ArgumentParser) -> None:
    """Add `--events`, the file by which others follow a job."""
    command.add_argument(
        "--events",
        metavar="FILE",
        help="also append events to this file, one JSON object per line; with several processes, the later ones write "
        "events.1.jsonl and so on next to it",
    )


def positive(text: str) -> int:
    """Parse a whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return int(text)


def duration(text: str, *, from_0: bool = False) -> float:
    """Parse a finite number of seconds above 0, or from 0 with `from_0`."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (0 < seconds < float("inf") or (from_0 and not seconds)):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds {'from' if from_0 else 'above'} 0")
    return seconds


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
