"""Parsers that show the usage of the failing command and suggest similar words.

A command's function is imported when it is called, so help, `--version` and completion do not import JAX.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

from workbench.core.installation import install_command
from workbench.core.operating_system import require_processes
from workbench.errors import WorkbenchError


@dataclass(frozen=True, slots=True)
class CommandFunction:
    """A function of a module in `workbench.cli`, imported when it is called.

    >>> CommandFunction("team_command", "init").needs_jax, CommandFunction("commands", "report").needs_jax
    (False, True)
    """

    module: str
    name: str

    def __call__(self, options: argparse.Namespace) -> None:
        getattr(import_module(f"workbench.cli.{self.module}"), self.name)(options)

    @property
    def needs_jax(self) -> bool:
        """Whether the command plans, compiles or runs anything."""
        return self.module not in {"command_parser", "team_command", "server_command", "catalogue_command", "learn_command"}


class TeamCommand(CommandFunction):
    """A command for the operator of a team server. Raises `WorkbenchError` if a server cannot run here."""

    def __call__(self, options: argparse.Namespace) -> None:
        require_processes("start the server")
        try:
            CommandFunction.__call__(self, options)
        except ModuleNotFoundError as error:
            raise WorkbenchError(f"The server needs `{error.name}`, which is not installed.", [install_command("team")]) from None


class CommandParser(argparse.ArgumentParser):
    """A parser that prints its help if the verb is missing, and suggests similar words for unknown ones."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, **options})
        self._verbs: Any = None
        self._given: Sequence[str] = ()
        self.set_defaults(command=CommandFunction("command_parser", "print_help"))
        self.set_defaults(parser=self)  # of a chosen verb in place of its command's: the parser that an error is about

    def add_verb(self, name: str, **options: Any) -> "CommandParser":
        """Add a command, or a verb of a command. Unless the command has a function, it prints its help without a verb."""
        if self._verbs is None:
            self._verbs = self.add_subparsers(metavar="VERB" if " " in self.prog else "COMMAND")
        parser: CommandParser = self._verbs.add_parser(name, **options)
        return parser

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]  # the type of its overloads
        """Parse options. For an unknown one, prints the usage of the command it was given to and exits with 2."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            options.parser.error(options.parser.unrecognized(unknown))
        return options

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]  # as `parse_args`
        """Parse what is known, and keep what was given for `error`."""
        self._given = sys.argv[1:] if args is None else args
        return super().parse_known_args(args, namespace)

    def unrecognized(self, unknown: Sequence[str]) -> str:
        """That these words are no options of the command, with the option that is most similar to one of them."""
        words = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        return f"unrecognized arguments: {' '.join(unknown)}{_suggestion(words, self._option_strings)}"

    @property
    def _option_strings(self) -> list[str]:
        return [word for action in self._actions for word in action.option_strings]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            suggestion = _suggestion([str(value)], known) or f"; choose from {', '.join(known)}"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{suggestion}")

    def error(self, message: str) -> NoReturn:
        """Print the usage, the error and how to read more; exit with 2. An unknown option is named before what is missing."""
        long = (word for word in self._given if word.startswith("--") and word != "--")
        unknown = [word for word in long if not any(known.startswith(word.partition("=")[0]) for known in self._option_strings)]
        if unknown and message.startswith("the following arguments are required"):
            message = f"{self.unrecognized(unknown)}; {message}"
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}\nFor details: {self.prog} --help\n")


def _suggestion(words: Iterable[str], known: Sequence[str]) -> str:
    """The most similar known word, as a question; empty if none is similar."""
    close = [match for word in words for match in get_close_matches(word, known, n=1)]
    return f" (did you mean `{close[0]}`?)" if close else ""


def print_help(options: argparse.Namespace) -> None:
    """Print the help of a command without a verb."""
    options.parser.print_help()


# Shell completion: argcomplete asks this program for the possible words.


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a completion request of a shell and exit. Does nothing otherwise."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def print_completion(options: argparse.Namespace) -> None:
    """Print the shell code for completion."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["workbench"], shell=options.shell))


COMPLETED: Mapping[str, tuple[str, Callable[[Any], Iterable[str]]]] = {
    "hardware": ("hardware.catalogue", lambda catalogue: catalogue.default_catalogue().entries),
    "lesson": ("cli.learn_command", lambda learn: [item.name for item in learn.course_items()]),
    "model": ("models.registry", lambda registry: [model.name for model in registry.ALL_MODELS]),
    "recipe": ("recipes.recipe_list", lambda recipes: [recipe.name for recipe in recipes.ALL_RECIPES]),
}
"""Module and names of each kind of completed word; the module is imported when a shell asks."""


def complete_with(action: argparse.Action, kind: str) -> None:
    """Complete an argument with a kind of `COMPLETED`; argcomplete reads the attribute."""
    module, names = COMPLETED[kind]
    vars(action)["completer"] = lambda **_: list(names(import_module(f"workbench.{module}")))
