"""The command lines of the documentation, and those of the README in a form that takes seconds."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
_ELSEWHERE = ("serve", "compare", "search", "run")  # take long, and have tests of their own
_QUICK = {"plan": ["--seconds", "0"], "report": ["--planned"], "export": ["--planned"]}


def commands_of(text: str) -> list[str]:
    """Whole command lines in blocks of shell code, without comments and what is joined to them."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    found = [part.strip() for line in lines for part in re.split(r" && | \| | > ", re.sub(r"(^|\s)#.*", "", line))]
    return [each for each in found if each.startswith("workbench ")]


def quick_readme_commands() -> list[list[str]]:
    """The words of each command of the README, without the slow commands, and with options that make the others quick."""
    lines = [shlex.split(command)[1:] for command in commands_of(README)]
    return [[*words, *_QUICK.get(words[0], [])] for words in lines if words[0] not in _ELSEWHERE]
