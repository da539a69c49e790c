"""An untested JAX is told of: in Python, on the command line, in the page; a tested one never is."""

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import workbench as wb
from workbench.app.page.serve import page
from workbench.cli.main import main
from workbench.tracing import UntestedJaxWarning, jax_version, untested_jax

ROOT = Path(__file__).parents[2]
UNTESTED = (
    "JAX 9.9.9 is not among the versions that the workbench is tested with (0.10.2, 0.11.0, 0.11.1): "
    "figures may differ from its compiler, and plans may fail."
)


@pytest.fixture
def another_jax(monkeypatch):
    monkeypatch.setattr(jax, "__version__", "9.9.9")
    jax_version.warn_if_untested.cache_clear()
    yield
    jax_version.warn_if_untested.cache_clear()


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
    assert capsys.readouterr().err.startswith(f"workbench: {UNTESTED}\n\nNo time is predicted without hardware")


def test_the_page_says_it_at_its_foot(another_jax):
    assert page(lambda _query, _screen: lambda: None)._render_variables["untested"] == UNTESTED


def test_the_range_of_the_package_begins_with_the_oldest_tested_and_is_open_behind_the_newest():
    """A version that was not tested warns, and is no reason not to install."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (asked,) = [each for each in project["dependencies"] if each.startswith("jax")]
    least, _, most = asked.partition(",<")
    assert least == f"jax>={jax_version.TESTED_JAX[0]}"
    assert [int(word) for word in most.split(".")] > [int(word) for word in jax_version.TESTED_JAX[-1].split(".")]
