"""The JavaScript of the boards: its types, its style, its own tests, and that the committed bundles are what the modules give."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.widgets.front_end import cell_module_text, module_text

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "workbench" / "widgets" / "static"
BUNDLES = STATIC / "bundle"
MODULES = sorted(path for path in ROOT.glob("workbench*/**/*.js") if path.parent != BUNDLES)
MOST_LINES = 300


def lacking(what: str) -> None:
    """Continuous integration has every tool; elsewhere a test may have to do without."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    if importlib.util.find_spec("deno") is None:
        lacking("no deno is installed")
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


def of_root(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("command", [["lint"], ["fmt", "--check"], ["test", "--no-lock", "--no-remote", "--no-npm"]], ids=" ".join)
def test_deno_finds_nothing_in_the_modules(command):
    done = run("-m", "deno", *command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_has_the_types_it_says():
    done = run("-m", "deno", "check", "--no-lock", *of_root(MODULES), "tests/javascript")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_type_would_be_found(tmp_path):
    """The configuration is the one that the modules are under: a sum of a text is no number there."""
    wrong = tmp_path / "wrong.js"
    wrong.write_text(f'import {{ laneX }} from "{(STATIC / "history_graph.js").as_uri()}";\nlaneX("1");\n')
    done = run("-m", "deno", "check", "--no-lock", "--config", "deno.json", str(wrong))
    assert done.returncode != 0
    assert "Argument of type 'string' is not assignable to parameter of type 'number'" in done.stdout + done.stderr


def test_every_module_is_checked_and_short():
    assert len(MODULES) > 50
    texts = {name: path.read_text(encoding="utf-8") for name, path in zip(of_root(MODULES), MODULES, strict=True)}
    assert [name for name, text in texts.items() if not text.startswith("// @ts-check\n")] == []
    assert [name for name, text in texts.items() if any(word in text for word in ("@ts-ignore", "@ts-nocheck", "deno-lint-ignore"))] == []
    assert [name for name, text in texts.items() if len(text.splitlines()) > MOST_LINES] == []


def test_the_committed_bundles_are_what_the_modules_give(tmp_path):
    done = run("tools/bundle.py", str(tmp_path))
    if "@esbuild" in done.stderr:
        pytest.skip("the bundler could not be fetched")  # a network is nothing that continuous integration promises
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in BUNDLES.iterdir())
    for made in tmp_path.iterdir():
        stale = f"{made.name} is not what its modules give: python tools/bundle.py"
        assert made.read_text(encoding="utf-8") == (BUNDLES / made.name).read_text(encoding="utf-8"), stale


@pytest.mark.parametrize("text", [module_text(), cell_module_text()], ids=["board", "cell"])
def test_a_served_module_stands_alone(text):
    """A host fetches nothing besides it, and finds `render` in what it exports."""
    lines = text.splitlines()
    assert lines[0].startswith("const ")
    assert [line for line in lines if line.startswith(("import ", "import{"))] == []
    assert [line for line in lines if line.startswith("export ")] == ["export {"]
    assert text.rstrip().endswith("as default\n};")


def test_every_style_sheet_is_in_the_bundle():
    sheets = {path.name for path in STATIC.glob("*.css")} - {"main.css"}
    imported = [line.split('"./')[1].split('"')[0] for line in (STATIC / "main.css").read_text().splitlines() if line.startswith("@import")]
    assert sorted(imported) == sorted(sheets)
