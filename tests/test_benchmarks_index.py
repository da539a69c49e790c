"""`benchmarks/README.md` lists every benchmark once, with what it fits or guards, and every result file."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
SHARED = "Modules that benchmarks share"
DATED = re.compile(r"20\d\d-\d\d-\d\d, \S")


def rows() -> Iterator[tuple[str, list[str]]]:
    """The heading and the cells of each row."""
    heading = ""
    for line in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines():
        heading = line.removeprefix("## ") if line.startswith("## ") else heading
        if line.startswith("| `"):
            yield heading, [cell.strip() for cell in line.strip("|").split("|")]


def file_of(cells: list[str]) -> str:
    return cells[0].strip("`")


def test_each_file_has_one_row():
    assert sorted(file_of(cells) for _, cells in rows()) == sorted(path.name for path in FOLDER.glob("*.py"))


def test_each_benchmark_says_what_it_fits_or_guards_and_when_it_was_run():
    listed = [cells for heading, cells in rows() if heading != SHARED]
    assert len(listed) > 20
    assert [file_of(cells) for cells in listed if len(cells) != 4 or not cells[1]] == []
    recorded = [cells for cells in listed if "results/" in cells[2]]
    assert [file_of(cells) for cells in recorded if not DATED.match(cells[3])] == []


def test_each_result_is_the_last_figure_of_a_benchmark():
    named = {name for _, cells in rows() for name in re.findall(r"\]\(results/([\w.]+)\)", "".join(cells))}
    assert named == {path.name for path in (FOLDER / "results").iterdir()}


def test_a_shared_module_is_used_by_those_that_are_named():
    shared = {file_of(cells): cells[1] for heading, cells in rows() if heading == SHARED}
    assert shared
    for file, users in shared.items():
        named = re.findall(r"`(\w+\.py)`", users)
        sources = [FOLDER / name for name in named] or [path for path in FOLDER.glob("*.py") if path.name != file]
        assert any(re.search(rf"\b{Path(file).stem}\b", path.read_text(encoding="utf-8")) for path in sources), file


def test_the_files_that_documents_name_exist():
    """In the documentation, the package and the tests: `benchmarks/NAME` in any of them is a file."""
    texts = [
        path
        for folder in ("docs", "workbench", "tests")
        for suffix in ("md", "toml", "py")
        for path in (ROOT / folder).rglob(f"*.{suffix}")
    ]
    texts += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml")]
    named = {
        (path.name, name) for path in texts for name in re.findall(r"benchmarks/([\w/]+\.(?:py|json))\b", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert sorted((path, name) for path, name in named if not (FOLDER / name).exists()) == []
