"""The commands in README and documentation are ones that the program takes, and what README and documentation name is there."""

import re
import shlex
from pathlib import Path

import pytest

import workbench
from tests.support.documented_commands import README, commands_of, quick_readme_commands
from workbench.cli.parser import make_parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "lessons").glob("*/lesson.md"))]

ALL = sorted({command for page in PAGES for command in commands_of(page.read_text(encoding="utf-8"))})


def test_there_are_commands():
    assert len(ALL) > 30
    assert len(quick_readme_commands()) > 5


@pytest.mark.parametrize("command", ALL)
def test_a_documented_command_is_one(command):
    words = shlex.split(command)[1:]
    options = make_parser().parse_args(words)
    assert options.command.module != "command_parser" or words[0] == "completion" or not words


def test_every_link_leads_to_a_file_of_the_checkout():
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#\s]+)", _prose(page)) if not link.startswith("http")]
    assert len(links) > 80
    assert [f"{page.relative_to(ROOT)}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def _prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_readme_is_short_and_its_picture_is_small():
    assert len(README.splitlines()) <= 120
    assert (ROOT / "docs" / "drag.gif").stat().st_size < 2_000_000


def test_the_reference_documents_every_exported_name():
    text = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    documented = {name.split(".")[0] for name in re.findall(r":: workbench\.([\w.]+)", text)}
    assert set(workbench.__all__) - documented == {"WorkbenchError"}  # with all errors
    assert "automodule:: workbench.errors" in text


def test_the_changelog_is_one_page_for_each_release():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (\S+)", text, re.MULTILINE)
    assert releases[-1] == "0.1.0"
    assert len(text.partition("## 0.1.0")[2].splitlines()) <= 80
