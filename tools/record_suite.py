"""Record a run of the tests in docs/installation.md: `python tools/record_suite.py TESTS RESULTS.xml...`, with the Python of the run.

`TESTS` says which tests were run; the results are what `pytest --junitxml` wrote, one file for each part of the run, a repeated part
last. The seconds are those of the tests, without collecting them. The row of these versions is replaced, or added.
"""

import platform
import sys
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

DOCUMENT = Path(__file__).parents[1] / "docs" / "installation.md"
HEAD = "| Python | JAX | Panel | Bokeh | Tests | Date | Passed | Failed | Skipped | Seconds |"


class Run(NamedTuple):
    """A run of tests: the versions, which tests, and how they ended. Skipped includes expected failures."""

    python: str
    jax: str
    panel: str
    bokeh: str
    tests: str
    date: str
    passed: int
    failed: int
    skipped: int
    seconds: int


def read_run(tests: str, results: Iterable[Path]) -> Run:
    """The run that these files describe, under the installed versions; of a test in several files the last counts."""
    suites = [suite for path in results for suite in ET.parse(path).getroot().iter("testsuite")]  # noqa: S314 (of our own pytest)
    cases = {(case.attrib["classname"], case.attrib["name"]): case for suite in suites for case in suite.iter("testcase")}
    ends = Counter(_end_of(case) for case in cases.values())
    versions = (".".join(platform.python_version_tuple()[:2]), *map(version, ("jax", "panel", "bokeh")))
    date = max(each.attrib["timestamp"] for each in suites)[:10]
    seconds = round(sum(float(case.attrib["time"]) for case in cases.values()))
    return Run(*versions, tests, date, ends["passed"], ends["failed"], ends["skipped"], seconds)


def _end_of(case: ET.Element) -> str:
    ends = {each.tag for each in case}
    return "failed" if ends & {"failure", "error"} else "skipped" if "skipped" in ends else "passed"


def read_runs(text: str) -> list[Run]:
    """The runs in the table of a document."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in _table(text)[2:]]
    return [Run(*cells[:6], *(int(cell.replace(",", "")) for cell in cells[6:])) for cells in rows]


def write_run(text: str, run: Run) -> str:
    """The document with the row of this run's versions, oldest versions first."""
    others = [each for each in read_runs(text) if _key(each) != _key(run)]
    runs = sorted((*others, run), key=lambda each: [[int(part) for part in word.split(".")] for word in _key(each)])
    before = _table(text)
    return text.replace("\n".join(before), "\n".join([*before[:2], *map(_row, runs)]))


def _key(run: Run) -> tuple[str, str, str, str]:
    return run.python, run.jax, run.panel, run.bokeh


def _row(run: Run) -> str:
    return f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else cell for cell in run)} |"


def _table(text: str) -> list[str]:
    lines = text.splitlines()
    start = lines.index(HEAD)
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith("|")), len(lines))
    return lines[start:end]


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    run = read_run(sys.argv[1], map(Path, sys.argv[2:]))
    DOCUMENT.write_text(write_run(DOCUMENT.read_text(encoding="utf-8"), run), encoding="utf-8")
    print(_row(run))  # noqa: T201


if __name__ == "__main__":
    main()
