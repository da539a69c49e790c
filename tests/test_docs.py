"""The documentation site is built without a warning, a share of the lessons executed; and what links point at is there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "docs"))

from plain_docstrings import convert

from tests.support.choosing import share_of
from tests.support.without_grammars import without_grammars
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.measurement import Measurement
from workbench.widgets.glossary.glossary import GROUPS
from workbench.widgets.glossary.lessons import COURSES, LESSON_OF, page_name

pytestmark = [pytest.mark.compile, pytest.mark.notebook]

ROOT = Path(__file__).parents[1]


LESSONS = sorted(each.parent.name for each in (ROOT / "lessons").glob("*/lesson.md"))
SHARE = 12
"""One in so many lessons is executed in every run, in addition to `one_product`; nightly runs execute all."""


@pytest.fixture(scope="module")
def site(tmp_path_factory, request) -> Path:
    """The site, built in a process of its own as `CONTRIBUTING.md` says, with boards recorded for one drop instead of two, and with a plain
    theme where the run is no nightly one."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", str(out)]
    executed = {"one_product", *share_of(request.config, LESSONS, SHARE)}
    share = {"WORKBENCH_DOCS_LESSONS": " ".join(sorted(executed)), "WORKBENCH_RECORD_MOVES": "1"}
    share["PYTHONPATH"] = without_grammars(tmp_path_factory.mktemp("light"), *filter(None, [os.environ.get("PYTHONPATH")]))
    if "nightly" not in request.config.getoption("markexpr"):
        share["WORKBENCH_DOCS_THEME"] = "basic"
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **share}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_every_lesson_notebook_and_word_has_a_page(site):
    lessons = [f"lessons/{name}/lesson" for names in COURSES.values() for name in names]
    words = [f"glossary/{page_name(term.name)}" for _, terms in GROUPS for term in terms]
    notebooks = [f"notebooks/{each.stem}" for each in (ROOT / "notebooks").glob("*.ipynb")]
    for page in (*lessons, *words, *notebooks, "index", "reference/python", "reference/command_line", "reference/gallery"):
        assert (site / f"{page}.html").exists(), page


def test_the_cells_of_lessons_ran_and_their_outputs_are_shown(site):
    page = (site / "lessons" / "one_product" / "lesson.html").read_text(encoding="utf-8")
    assert "each product is computed 2.00 times" in page
    assert "Not yet:" in page


def test_every_lesson_is_in_a_course_under_its_title():
    titles = {name: title for lessons in COURSES.values() for name, title in lessons.items()}
    texts = {each.parent.name: each.read_text(encoding="utf-8") for each in (ROOT / "lessons").glob("*/lesson.md")}
    headings = {name: re.search(r"^# (.+)$", text, re.MULTILINE)[1] for name, text in texts.items()}
    assert titles == headings
    assert set(LESSON_OF.values()) <= set(titles)
    assert set(LESSON_OF) <= {term.name for _, terms in GROUPS for term in terms}


def test_no_two_words_of_the_glossary_share_a_page():
    slugs = [page_name(term.name) for _, terms in GROUPS for term in terms]
    assert len(set(slugs)) == len(slugs)


@pytest.mark.parametrize(
    ("plain", "made"),
    [
        (["`Mesh`es of `a`."], ["``Mesh``\\ es of ``a``."]),
        (["Call `f`:", "", "    f(1)"], ["Call ``f``:", "", "::", "", "    f(1)"]),
        (["There are", "- `a`;", "- `b`."], ["There are", "", "- ``a``;", "- ``b``."]),
    ],
)
def test_a_docstring_becomes_restructured_text(plain, made):
    assert convert(plain) == made


class Recorded:
    """A module of a tracker that is not installed: whatever is called or entered is there, and counted."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name):
        self.calls.append(name)
        return self

    def __call__(self, *_given, **_named):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return None


@pytest.mark.parametrize(("tracker", "called"), [("mlflow", {"log_metrics", "log_metric", "log_text"}), ("wandb", {"init", "log", "save"})])
def test_the_examples_for_trackers_run(tracker, called, tmp_path, monkeypatch):
    text = (ROOT / "docs" / "profilers_and_trackers.md").read_text(encoding="utf-8")
    code = next(each for each in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if f"import {tracker}" in each)
    monkeypatch.chdir(tmp_path)
    Plan(build("two_layer"), "all:8", "batch:all", hardware="TPU v5e 2x4").save("my.plan.json")
    monkeypatch.setattr(Plan, "run", lambda *_given, **_named: Measurement("cpu", 8, 1, 0.1, (2e-3, 3e-3), (), (), {}, 0))
    recorded = Recorded()
    monkeypatch.setitem(sys.modules, tracker, recorded)
    exec(code, {})
    assert called <= set(recorded.calls)


def test_every_link_of_the_site_to_itself_leads_somewhere(site):
    for page in (each for each in site.rglob("*.html") if "_static" not in each.parts):
        for link in re.findall(r'(?:href|src)="([^"#?:]+)(?:[#?][^"]*)?"', page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.relative_to(site)} links to {link}"
