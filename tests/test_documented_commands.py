"""The commands in README and documentation are ones that the program takes, and what README, documentation, lessons and notebooks name is
there."""

import ast
import importlib
import json
import re
import shlex
from collections.abc import Iterator
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


def test_every_imported_name_is_there():
    imported = {(module, name) for source in _sources() for module, name in _imports(source)}
    assert len(imported) > 250
    missing = [f"{module}: {name}" for module, name in sorted(imported) if not _is_there(module, name)]
    assert missing == []


def _sources() -> Iterator[str]:
    """The Python code that runs outside the package: of pages, lessons, notebooks, benchmarks and tools."""
    for page in PAGES:
        yield from re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for notebook in [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("lessons/**/*.ipynb")]:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        yield from ("".join(each["source"]) for each in cells if each["cell_type"] == "code")
    for folder in ("benchmarks", "docs", "lessons", "tools"):
        yield from (each.read_text(encoding="utf-8") for each in ROOT.glob(f"{folder}/**/*.py"))


def _imports(source: str) -> Iterator[tuple[str, str]]:
    plain = re.sub(r"^\s*[%!].*", "", source, flags=re.MULTILINE)  # the magics of notebooks
    yield from (("workbench", name) for name in re.findall(r"\bwb\.(\w+)", plain) if "import workbench as wb" in plain)
    for node in ast.walk(ast.parse(plain)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "workbench":
            yield from ((node.module, each.name) for each in node.names)
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.partition(".")[0] == "workbench")


def _is_there(module: str, name: str) -> bool:
    try:
        if name in {"", "*"} or hasattr(importlib.import_module(module), name):
            return bool(importlib.import_module(module))
        return bool(importlib.import_module(f"{module}.{name}"))
    except ModuleNotFoundError:
        return False


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
