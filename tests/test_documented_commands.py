"""The commands in README and documentation are ones that the program takes, and those of the README run."""

import json
import re
import shlex
from pathlib import Path

import pytest

import workbench
from tests.support.model_configs import PUBLISHED
from workbench.cli.main import main
from workbench.cli.parser import make_parser
from workbench.core.program import Reference
from workbench.documents import program_from_reference
from workbench.public_plan import Plan

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "lessons").glob("*/lesson.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands_of(text: str) -> list[str]:
    """Whole command lines in blocks of shell code, without comments and what is joined to them."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    found = [part.strip() for line in lines for part in re.split(r" && | \| | > ", re.sub(r"(^|\s)#.*", "", line))]
    return [each for each in found if each.startswith("workbench ")]


ALL = sorted({command for page in PAGES for command in commands_of(page.read_text(encoding="utf-8"))})
ELSEWHERE = ("serve", "compare", "search", "run")  # take long, and have tests of their own
QUICK = {"plan": ["--seconds", "0"], "report": ["--planned"], "export": ["--planned"]}
FROM_README = [command for command in commands_of(README) if command.split()[1] not in ELSEWHERE]


def test_there_are_commands():
    assert len(ALL) > 30
    assert len(FROM_README) > 5


@pytest.mark.parametrize("command", ALL)
def test_a_documented_command_is_one(command):
    words = shlex.split(command)[1:]
    options = make_parser().parse_args(words)
    assert options.command.module != "command_parser" or words[0] == "completion" or not words


@pytest.mark.compile
def test_the_commands_of_the_readme_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    """In a folder with a plan and a configuration, as their reader has them; the plan is a small one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("workbench.engine.spmd.kept_calibration._path", lambda devices: tmp_path / "calibrated" / f"{devices}.toml")
    Plan(program_from_reference(Reference("gpt", {})), "data:4 model:2", "").save("mine.plan.json")
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED["Llama 3.1 8B"][1]))
    for command in FROM_README:
        words = shlex.split(command)[1:]
        assert main([*words, *QUICK.get(words[0], [])]) == 0, f"{command}\n{capsys.readouterr().err}"
    printed = capsys.readouterr().out
    assert "fits" in printed
    assert "does not fit" not in printed
    assert {"sharded.plan.json", "mine.py", "one_product"} <= {each.name for each in tmp_path.iterdir()}


def test_the_readme_is_short_and_all_it_names_is_there():
    assert len(README.splitlines()) <= 120
    missing = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if not link.startswith("http") and not (ROOT / link).exists()]
    assert missing == []
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
