"""Recorded boards: what a lesson's page weighs, and when a browser without a network has painted it from a file.

Of each lesson the page of its first board, two drops deep, with the script that all share: `gzip_kb` of the largest, `first_paint_ms` of
the slowest (First Contentful Paint in headless Chromium, the median of five loads), `board_ms` when its chips are there.

    python benchmarks/recorded.py [--quick] [--json]
"""

import argparse
import gzip
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from playwright.sync_api import Browser, sync_playwright

from tests.install_browsers import system_chromium
from workbench.exercises import Exercise, PlanQuestion
from workbench.widgets.recorded.record_board import record_board, recorded_page

LESSONS = Path(__file__).parents[1] / "lessons"


def page_of(lesson: Path) -> str | None:
    """The page of a lesson's first question that asks for a plan; `None` where none does."""
    exercise = Exercise.load(lesson / "exercise.json")
    asked = next((each for each in exercise.questions if isinstance(each, PlanQuestion)), None)
    return None if asked is None else recorded_page(record_board(asked.plan, 2, exercise, asked.name), exercise.title)


def paint(browser: Browser, file: Path) -> tuple[float, float]:
    """Milliseconds to the first paint, and until the chips are there."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    start = time.perf_counter()
    page.goto(file.as_uri())
    page.locator(".chip").first.wait_for()
    shown = (time.perf_counter() - start) * 1e3
    painted = page.wait_for_function("performance.getEntriesByName('first-contentful-paint')[0]?.startTime").json_value()
    context.close()
    return float(painted), shown


def measure(browser: Browser, lesson: Path, loads: int) -> dict[str, float | str] | None:
    text = page_of(lesson)
    if text is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "board.html"
        file.write_text(text, encoding="utf-8")
        seen = [paint(browser, file) for _ in range(loads)]
    row = {
        "lesson": lesson.name,
        "kb": len(gzip.compress(text.encode())) / 1024,
        "paint": statistics.median(each[0] for each in seen),
        "board": statistics.median(each[1] for each in seen),
    }
    print(f"{lesson.name}: {row['kb']:.0f} KiB, painted after {row['paint']:.0f} ms, board after {row['board']:.0f} ms", file=sys.stderr)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two lessons, two loads")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    lessons = sorted(each.parent for each in LESSONS.glob("*/exercise.json"))[: 2 if options.quick else None]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=system_chromium() or None)
        rows = [row for each in lessons if (row := measure(browser, each, 2 if options.quick else 5))]
        browser.close()
    record = {
        "gzip_kb": round(max(row["kb"] for row in rows), 1),
        "first_paint_ms": round(max(row["paint"] for row in rows)),
        "board_ms": round(max(row["board"] for row in rows)),
        "lessons": len(rows),
    }
    print(json.dumps(record) if options.json else record)


if __name__ == "__main__":
    main()
