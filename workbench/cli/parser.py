"""The argument parser of the command line, made from the commands and options in `commands.toml`."""

import argparse
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from workbench import __version__
from workbench.cli.command_parser import COMPLETED, CommandFunction, CommandParser, TeamCommand, complete_with

Options = Mapping[str, str]
"""Help by option, in the notation that the head of `commands.toml` explains."""
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def make_parser() -> CommandParser:
    """The parser of all commands."""
    described = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
    terms, shared = described["terms"], described["shared"]
    parser = CommandParser(prog="workbench", description=described["description"], epilog=terms + described["epilog"])
    parser.add_argument("--version", action="version", version=f"workbench {__version__}")
    parsers = {"": parser}
    options_of: dict[str, Options] = {"": {}}
    for name, command in described["commands"].items():
        parent, _, verb = name.rpartition(" ")
        options_of[name] = _with_shared(command.get("options", {}), shared)
        has_terms = "--mesh AXES" in options_of[name] or command.get("terms", False)
        parsers[name] = _add_command(parsers[parent], verb, command, terms if has_terms else "")
        _add_options(parsers[name], options_of[name], command.get("one_of", ()), options_of[parent])
    parser.set_defaults(serve=parsers["serve"])
    return parser


def _with_shared(options: Options, shared: Mapping[str, Options]) -> Options:
    """The options with each `@group` replaced by the options of that group."""
    found: dict[str, str] = {}
    for option, text in options.items():
        if option.startswith("@"):
            group = _with_shared(shared[option[1:]], shared)
            found |= {inner: words.replace("{}", text) for inner, words in group.items()}
        else:
            found[option] = text
    return found


def _add_command(parent: CommandParser, verb: str, command: Mapping[str, Any], terms: str) -> CommandParser:
    about, examples = command["about"], command["examples"]
    parser = parent.add_verb(
        verb,
        help=about,
        description=command.get("description", f"{about[0].upper()}{about[1:]}."),
        epilog=f"{terms}\nexample{'s' * (len(examples) > 1)}:\n  " + "\n  ".join(examples) + "\n",
    )
    if "runs" in command:
        module, _, function = command["runs"].partition(".")
        kind = TeamCommand if module == "team_command" else CommandFunction
        parser.set_defaults(command=kind(module, function))
    return parser


def _add_options(parser: CommandParser, options: Options, one_of: Collection[str], of_command: Options) -> None:
    """Add options to a verb. One that its command has too keeps the value that was given before the verb."""
    group = parser.add_mutually_exclusive_group() if one_of else parser
    for option, text in options.items():
        names, keywords = _argument(option, text)
        if option in of_command:
            keywords["default"] = argparse.SUPPRESS
        action = (group if option in one_of else parser).add_argument(*names, **keywords)
        for kind in set(option.split()[1:]) & set(COMPLETED):
            complete_with(action, kind)


def _argument(option: str, text: str) -> tuple[list[str], dict[str, Any]]:
    """The names and keywords of `add_argument` for an option.

    >>> _argument("-o --output FILE", "file to write")
    (['-o', '--output'], {'help': 'file to write', 'metavar': 'FILE'})
    >>> _argument("--steps N int =20", "")[1]["default"]
    '20'
    """
    if option == "--[no-]profile":
        return ["--profile"], {"action": argparse.BooleanOptionalAction, "default": True, "help": text}
    written, has_default, default = option.partition(" =")
    words = written.split()
    flags = [word for word in words if word.startswith("-")]
    rest = words[len(flags) or 1 :]
    keywords: dict[str, Any] = {"help": text or None, **({"default": default} if has_default else {})}
    for word in rest:
        keywords |= _keyword(word, is_flag=bool(flags))
    if flags and not rest and not has_default:
        keywords["action"] = "store_true"
    if "dest" in keywords and not text:
        keywords |= {"action": FormerOption, "help": argparse.SUPPRESS}
    return flags or words[:1], keywords


def _keyword(word: str, *, is_flag: bool) -> dict[str, Any]:
    """The keyword of `add_argument` that a word of an option stands for."""
    if word in TYPES:
        return {"type": TYPES[word]}
    if word == "...":
        return {"action": "append", "default": []}
    if word in ("?", "*"):
        return {"nargs": word, **({"const": ""} if is_flag else {})}
    if word[0] in "{>":
        return {"choices": tuple(word[1:-1].split(","))} if word[0] == "{" else {"dest": word[1:]}
    return {} if word in COMPLETED else {"required": True} if word == "required" else {"metavar": word}


class FormerOption(argparse.Action):
    """A deprecated option: accepted, with a note on stderr that gives the present one."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:  # noqa: ARG002 - argparse passes the parser
        print(f"{option} is deprecated: use --{self.dest.replace('_', '-')}.", file=sys.stderr)
        setattr(namespace, self.dest, values)


def integer(text: str) -> int:
    """Parse a whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number") from None


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


def counts(text: str) -> tuple[int, ...]:
    """Parse comma-separated whole numbers from 1."""
    return tuple(positive(count.strip()) for count in text.split(","))


def names(text: str) -> tuple[str, ...]:
    """Parse names separated by `|`.

    >>> names("as traced|bfloat16")
    ('as traced', 'bfloat16')
    """
    return tuple(name.strip() for name in text.split("|"))


def span(text: str) -> float:
    """Parse a time with or without unit, seconds.

    >>> span("90"), span("60s"), span("5m")
    (90.0, 60.0, 300.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    if not match or match[2] not in _UNITS or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text} is not a time above 0, such as 60s or 5m")
    return float(match[1]) * _UNITS[match[2]]


TYPES: Mapping[str, Callable[[str], Any]] = {
    "int": integer,
    "positive": positive,
    "whole": lambda text: 0 if text == "0" else positive(text),
    "counts": counts,
    "names": names,
    "layouts": lambda text: text if text == "all" else names(text),
    "duration": duration,
    "duration_from_0": partial(duration, from_0=True),
    "span": span,
}
"""Types of an option's value in `commands.toml`."""
