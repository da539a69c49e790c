"""An untested JAX is told of: in Python, on the command line, in the page; a tested one never is."""

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import workbench as wb
from tools.record_suite import DOCUMENT, HEAD, Run, read_run, read_runs, write_run
from workbench.app.page.serve import page
from workbench.cli.main import main
from workbench.core import jax_installation
from workbench.core.jax_installation import UntestedJaxWarning, untested_jax

ROOT = Path(__file__).parents[2]
UNTESTED = (
    "JAX 9.9.9 is not among the versions that the workbench is tested with (0.10.2, 0.11.0, 0.11.1, 0.12.0.1): "
    "figures may differ from its compiler, and plans may fail."
)


@pytest.fixture
def another_jax(monkeypatch):
    monkeypatch.setattr(jax_installation, "installed_jax", lambda: "9.9.9")
    jax_installation.warn_if_untested.cache_clear()
    yield
    jax_installation.warn_if_untested.cache_clear()


def double():
    return wb.trace(lambda x: 2 * x, jax.ShapeDtypeStruct((8,), jnp.float32))


def test_the_installed_jax_is_tested_and_not_told_of(capsys):
    assert untested_jax() is None
    assert main(["models"]) == 0
    assert capsys.readouterr().err == ""
    assert page(lambda _query, _screen: lambda: None)._render_variables["untested"] == ""


def test_python_warns_once_when_something_is_traced(another_jax):
    with pytest.warns(UntestedJaxWarning) as found:
        double()
    assert [str(each.message) for each in found] == [UNTESTED]
    double()  # warnings are errors here


def test_the_command_line_says_it_in_one_line(another_jax, capsys):
    with warnings.catch_warnings():
        assert main(["report", "--model", "two_layer", "--mesh", "data:2", "--planned"]) == 0
    assert capsys.readouterr().err.startswith(f"workbench: {UNTESTED}\n\nStep times need hardware")


def test_the_page_says_it_at_its_foot(another_jax):
    assert page(lambda _query, _screen: lambda: None)._render_variables["untested"] == UNTESTED


def test_the_range_of_the_package_begins_with_the_oldest_tested_and_is_open_behind_the_newest():
    """A version that was not tested warns, and is no reason not to install."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (asked,) = [each for each in project["dependencies"] if each.startswith("jax")]
    least, _, most = asked.partition(",<")
    assert least == f"jax>={jax_installation.TESTED_JAX[0]}"
    assert [int(word) for word in most.split(".")] > [int(word) for word in jax_installation.TESTED_JAX[-1].split(".")]


def test_the_versions_of_recorded_runs_without_failure_are_tested_ones():
    runs = read_runs(DOCUMENT.read_text(encoding="utf-8"))
    assert {jax_installation.TESTED_JAX[0], jax_installation.TESTED_JAX[-1]} <= {each.jax for each in runs if each.passed}
    assert {each.jax for each in runs if not each.failed} <= set(jax_installation.TESTED_JAX)


OLD = Run("3.11", "0.10.2", "1.9.4", "3.9.2", "all", "2026-11-01", 8000, 1, 20, 1600)
NEW = Run("3.13", "0.12.0.1", "1.10.0", "3.10.2", "all", "2026-11-02", 8001, 0, 19, 1700)


def test_a_run_takes_the_place_of_the_one_before_with_the_same_versions():
    text = f"before\n\n{HEAD}\n|---|\n\nafter\n"
    for run in (NEW, OLD, again := Run(*OLD[:4], "all", "2026-11-03", 8001, 0, 20, 1500)):
        text = write_run(text, run)
    assert read_runs(text) == [again, NEW]
    assert text.startswith("before\n\n| Python")
    assert text.endswith("| 1,700 |\n\nafter\n")


def results(name, day, cases):
    rows = "".join(f'<testcase classname="{name}" name="{each}" time="0.7">{end}</testcase>' for each, end in cases.items())
    return f'<testsuites><testsuite timestamp="2026-11-0{day}T10:00:00">{rows}</testsuite></testsuites>'


def test_a_run_is_read_from_the_files_of_its_parts_and_the_last_result_counts(tmp_path):
    parts = (
        results("tests.a", 1, {"one": "", "two": "<failure/>", "three": "<error/>", "four": "<skipped/>"}),
        results("tests.b", 2, {"one": ""}),
        results("tests.a", 2, {"two": ""}),
    )
    paths = [tmp_path / f"{number}.xml" for number in range(len(parts))]
    for path, text in zip(paths, parts, strict=True):
        path.write_text(text)
    run = read_run("two parts", paths)
    assert (run.jax, run.tests, run.date) == (jax.__version__, "two parts", "2026-11-02")
    assert (run.passed, run.failed, run.skipped, run.seconds) == (3, 1, 1, 4)
