"""Text that users read is plain English: retired phrases do not come back."""

import ast
import inspect
import json
import pydoc
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = tomllib.loads((ROOT / "tests" / "retired_phrases.toml").read_text(encoding="utf-8"))
PHRASES = {phrase: instead for group in WORDS["phrases"].values() for phrase, instead in group.items()}
WHERE = (
    "workbench/**/*.py",
    "workbench/**/*.js",
    "workbench/**/*.html",
    "workbench/documents/*.schema.json",
    "*.md",
    "docs/*.md",
    *(f"docs/reference/{name}.md" for name in ("documents", "gallery", "python")),  # the page of the command line is generated
    "lessons/*/*.md",
    "lessons/*/*.json",
    "notebooks/*.ipynb",
)
_JOINT = re.compile(r'["\']\s*\n\s*[frFR]*["\']')  # between two literals that Python joins
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_JS_COMMENT = re.compile(r"^\s*(?://|/?\*).*$", re.MULTILINE)


def texts(path: Path, content: str) -> Iterator[str]:
    """What a user reads of a file: literals that are no docstrings, cells without their outputs, prose without its code."""
    if path.suffix == ".py":
        tree = ast.parse(content)
        lone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        yield from (node.value for node in strings if id(node) not in lone)
    elif path.suffix == ".ipynb":
        yield from (_CODE.sub("", "".join(cell["source"])) for cell in json.loads(content)["cells"] if cell["cell_type"] == "markdown")
    else:
        yield (_JS_COMMENT if path.suffix == ".js" else _CODE).sub("", content)


def retired(text: str) -> set[str]:
    """The retired phrases in a text, whatever its line breaks and capitals."""
    plain = " ".join(text.lower().split())
    return {phrase for phrase in PHRASES if phrase in plain and re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", plain)}


def retired_in(path: Path) -> set[str]:
    content = path.read_text(encoding="utf-8")
    if not retired(_JOINT.sub("", content)):
        return set()  # most files: they need not be parsed
    return {phrase for text in texts(path, content) for phrase in retired(text)}


def test_no_retired_phrase_is_in_text_that_users_read():
    paths = [path for pattern in WHERE for path in ROOT.glob(pattern) if "bundle" not in path.parts]
    found = {(path.relative_to(ROOT).as_posix(), phrase) for path in paths for phrase in retired_in(path)}
    allowed = {(path, phrase) for path, phrases in WORDS["allowed"].items() for phrase in phrases}
    assert not found - allowed, "\n".join(
        f"{path}: \u201c{phrase}\u201d; write: {PHRASES[phrase]}" for path, phrase in sorted(found - allowed)
    )
    assert not allowed - found, f"no longer needed in retired_phrases.toml: {sorted(allowed - found)}"


def test_no_retired_phrase_is_in_a_docstring_of_the_reference():
    reference = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    documented = {name: pydoc.locate(name) for name in re.findall(r":: (workbench\.[\w.]+)", reference)}
    assert [name for name, value in documented.items() if value is None] == []
    members = ((f"{name}.{key}", member) for name, value in documented.items() for key, member in _public_members(value))
    texts = {name: inspect.getdoc(value) or "" for name, value in (*documented.items(), *members)}
    assert len(texts) > 150
    assert {name: found for name, text in texts.items() if (found := retired(text))} == {}


def _public_members(value: object) -> Iterator[tuple[str, object]]:
    named = vars(value).items() if inspect.isclass(value) or inspect.ismodule(value) else ()
    return ((key, member) for key, member in named if not key.startswith("_") and (callable(member) or isinstance(member, property)))


def test_each_phrase_is_found_across_lines_and_not_in_what_replaces_it():
    for phrase, instead in PHRASES.items():
        assert phrase == phrase.lower()
        assert phrase in retired("Say " + phrase.upper().replace(" ", " \n  ") + ", then.")
        assert phrase not in retired(f"un{phrase}s")
        assert phrase not in retired(instead)


def test_docstrings_code_and_outputs_are_not_searched(tmp_path):
    for name, content, phrases in (
        ("a.py", '"""To mind."""\nx = "To " \\\n    "mind"  # to mind\n', {"to mind"}),
        ("b.py", '"""To mind."""\n', set()),
        ("c.md", "It has `ways out`, a list.", set()),
        ("d.md", "It has ways\nout.", {"ways out"}),
        ("e.js", "// to mind\nx = 1;", set()),
        ("f.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": ["'to mind'"]}]}), set()),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert retired_in(tmp_path / name) == phrases, name
